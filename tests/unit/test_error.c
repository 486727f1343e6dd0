/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "tests/lib/t_table.h"

static char letters[2 * ERROR_TEXT_SIZE];

T_TEST(set_gives_number_and_text)
{
	struct error e = { 0 };

	assert_int_equal(error_set(&e, -ENOENT, "no file %d", 7), -ENOENT);
	assert_int_equal(e.err, -ENOENT);
	assert_string_equal(e.text, "no file 7");
}

T_TEST(refuse_gives_false_and_text)
{
	struct error e = { 0 };

	assert_false(error_refuse(&e, "not %d", 7));
	assert_int_equal(e.err, -EINVAL);
	assert_string_equal(e.text, "not 7");
}

T_TEST(prefix_stands_before_the_text)
{
	struct error e = { 0 };

	error_set(&e, -EIO, "cannot read");
	assert_int_equal(error_prefix(&e, "volume '%s': ", "a"), -EIO);
	assert_string_equal(e.text, "volume 'a': cannot read");
}

T_TEST(added_text_stands_behind)
{
	struct error e = { 0 };

	error_set(&e, -EIO, "cannot read");
	assert_int_equal(error_add(&e, "; try %u", 2), -EIO);
	assert_string_equal(e.text, "cannot read; try 2");
}

T_TEST(long_text_is_cut_at_its_end)
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

T_TEST(nobody_need_want_the_text)
{
	assert_int_equal(error_set(NULL, -EPERM, "no"), -EPERM);
	assert_false(error_refuse(NULL, "no"));
	assert_int_equal(error_prefix(NULL, "no"), 0);
	assert_int_equal(error_add(NULL, "no"), 0);
}

int main(void)
{
	memset(letters, 'x', sizeof(letters) - 1);
	return t_run();
}
