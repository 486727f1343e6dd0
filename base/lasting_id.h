/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The identifier of an installation: a random text, drawn once and kept in a file of its
 * state directory. The machine ID and the host name are no such thing: the machines of
 * one image share them, and a container that is made anew has others.
 *
 * Thread: setup. Blocks.
 */
#ifndef BASE_LASTING_ID_H
#define BASE_LASTING_ID_H

/* With its NUL; the text has visible ASCII characters. */
#define LASTING_ID_SIZE 129

/*
 * lasting_id_get() - read the identifier of the directory @dir, or draw it
 * @dir:  descriptor of a directory that only root and this user may write
 * @seed: what to keep as identifier instead of drawing one; NULL: nothing
 *
 * If two processes draw at the same time, both get the identifier of one of them.
 *
 * Return: 0; -EINVAL: @seed is no such text; -EBADMSG: the file does not hold an
 *   identifier; another negative errno.
 */
int lasting_id_get(int dir, const char *seed, char ret_id[LASTING_ID_SIZE]);

/* Its file, for messages. */
#define LASTING_ID_FILE "id"

#endif
