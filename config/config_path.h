/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Relative paths in configurations. They begin where they were written: in a file at its
 * directory, on a command line at the working directory. So they are made absolute when
 * they are read, and mean the same in every process.
 *
 * The location of a plugin is its own affair, and stays.
 *
 * Thread: any.
 */
#ifndef CONFIG_CONFIG_PATH_H
#define CONFIG_CONFIG_PATH_H

#include <jansson.h>

/* Makes the relative paths in the canonical configuration @config, or volume @vol, begin at
 * the absolute path @dir. NULL: at the working directory. 0, or -errno. */
int config_make_absolute(json_t *config, const char *dir);
int config_make_volume_absolute(json_t *vol, const char *dir);

/* The directory of the file @path, as an absolute path to be freed. NULL: errno. */
char *config_dir_of(const char *path);

/* The absolute path of the file @path, to be freed. NULL: errno. */
char *config_path_of(const char *path);

#endif
