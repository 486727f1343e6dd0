/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "tests/lib/t_table.h"

static char letters[2 * ERROR_TEXT_SIZE];

static void set_gives_number_and_text(void **state)
{
	struct error e = { 0 };

	assert_int_equal(error_set(&e, -ENOENT, "no file %d", 7), -ENOENT);
	assert_int_equal(e.err, -ENOENT);
	assert_string_equal(e.text, "no file 7");
}

static void refuse_gives_false_and_text(void **state)
{
	struct error e = { 0 };

	assert_false(error_refuse(&e, "not %d", 7));
	assert_int_equal(e.err, -EINVAL);
	assert_string_equal(e.text, "not 7");
}

static void prefix_stands_before_the_text(void **state)
{
	struct error e = { 0 };

	error_set(&e, -EIO, "cannot read");
	assert_int_equal(error_prefix(&e, "volume '%s': ", "a"), -EIO);
	assert_string_equal(e.text, "volume 'a': cannot read");
}

static void added_text_stands_behind(void **state)
{
	struct error e = { 0 };

	error_set(&e, -EIO, "cannot read");
	assert_int_equal(error_add(&e, "; try %u", 2), -EIO);
	assert_string_equal(e.text, "cannot read; try 2");
}

static void long_text_is_cut_at_its_end(void **state)
{
	struct error e = { 0 };

	error_set(&e, -EIO, "%s", letters);
	assert_int_equal(strlen(e.text), ERROR_TEXT_SIZE - 1);
	error_add(&e, "more");
	assert_int_equal(strlen(e.text), ERROR_TEXT_SIZE - 1);
	assert_int_equal(e.text[ERROR_TEXT_SIZE - 2], 'x');
	error_prefix(&e, "first: ");
	assert_int_equal(strlen(e.text), ERROR_TEXT_SIZE - 1);
	assert_memory_equal(e.text, "first: xxx", 10);
}

static void nobody_need_want_the_text(void **state)
{
	assert_int_equal(error_set(NULL, -EPERM, "no"), -EPERM);
	assert_false(error_refuse(NULL, "no"));
	assert_int_equal(error_prefix(NULL, "no"), 0);
	assert_int_equal(error_add(NULL, "no"), 0);
}

int main(void)
{
	static struct t_table t;

	memset(letters, 'x', sizeof(letters) - 1);
	T_ADD(&t, set_gives_number_and_text);
	T_ADD(&t, refuse_gives_false_and_text);
	T_ADD(&t, prefix_stands_before_the_text);
	T_ADD(&t, added_text_stands_behind);
	T_ADD(&t, long_text_is_cut_at_its_end);
	T_ADD(&t, nobody_need_want_the_text);
	return t_run(&t);
}
