/* SPDX-License-Identifier: BSD-2-Clause */
/* Columns that are as wide as what is in them, for people. Thread: main. */
#ifndef CTL_CTL_TABLE_H
#define CTL_CTL_TABLE_H

#define CTL_TABLE_COLUMNS_MAX 8

struct ctl_table {
	/* A head that begins with '>' is that of a column of numbers. */
	const char *const *heads;
	unsigned int columns;
	char **cells; /* row after row */
	unsigned int cnt;
	unsigned int room;
};

/* The next cell; the row after the last column is another one. */
void ctl_table_put(struct ctl_table *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* On stdout. Frees the cells. The last column has no end. */
void ctl_table_print(struct ctl_table *t);

#endif
