/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines for the journal of systemd. The test takes its datagrams, and is the stream
 * that stderr is. */
#include "base/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/lib/t_table.h"

static struct {
	int fd; /* our end of stderr; -1: stderr is not a stream */
	int old_stderr;
	bool gone; /* the journal takes nothing */
	char address[108];
	unsigned char bytes[8192]; /* the last datagram */
	size_t len;
	unsigned int cnt;
} journal;

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags,
		      const struct sockaddr *to, socklen_t to_len);

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags,
		      const struct sockaddr *to, socklen_t to_len)
{
	assert_true(len <= sizeof(journal.bytes));
	if (journal.gone) {
		errno = ECONNREFUSED;
		return -1;
	}
	strcpy(journal.address, ((const struct sockaddr_un *)to)->sun_path);
	memcpy(journal.bytes, buf, len);
	journal.len = len;
	journal.cnt++;
	return (ssize_t)len;
}

/* stderr is a stream of the journal. */
static int start(void **state)
{
	char stream[64];
	struct stat st;
	int fds[2];

	memset(&journal, 0, sizeof(journal));
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	journal.fd = fds[0];
	journal.old_stderr = dup(STDERR_FILENO);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	return 0;
}

static int stop(void **state)
{
	dup2(journal.old_stderr, STDERR_FILENO);
	close(journal.old_stderr);
	close(journal.fd);
	unsetenv("JOURNAL_STREAM");
	return 0;
}

T_EACH(start, stop)

/* A field in the form with a length: "NAME\n", 8 bytes, the value, "\n". */
static bool has_field(const char *name, const char *value)
{
	size_t name_len = strlen(name), value_len = strlen(value);
	unsigned char field[512];

	memcpy(field, name, name_len);
	field[name_len] = '\n';
	memset(field + name_len + 1, 0, 8);
	field[name_len + 1] = (unsigned char)value_len;
	memcpy(field + name_len + 9, value, value_len);
	field[name_len + 9 + value_len] = '\n';
	return memmem(journal.bytes, journal.len, field,
		      name_len + value_len + 10);
}

static void expect_stderr(const char *text)
{
	char buf[2048];
	ssize_t n = recv(journal.fd, buf, sizeof(buf) - 1, MSG_DONTWAIT);

	buf[n > 0 ? n : 0] = '\0';
	assert_string_equal(buf, text);
}

T_TEST(line_has_its_fields)
{
	const struct log_about about = { .nexus = "0x1",
					 .volume = "disk",
					 .lun = 7 };

	log_init("rdma-test", LOG_NOTICE);
	log_to_journal();
	log_event(LOG_WARNING, &about, "two\nlines of %s", "text");
	assert_int_equal(journal.cnt, 1);
	assert_string_equal(journal.address, "/run/systemd/journal/socket");
	assert_true(has_field("MESSAGE", "two\nlines of text"));
	assert_true(has_field("PRIORITY", "4"));
	assert_true(has_field("SYSLOG_IDENTIFIER", "rdma-test"));
	assert_true(has_field("NEXUS", "0x1"));
	assert_true(has_field("VOLUME", "disk"));
	assert_true(has_field("LUN", "7"));
	expect_stderr("");
}

T_TEST(line_about_nothing_has_no_such_fields)
{
	log_init("rdma-test", LOG_NOTICE);
	log_to_journal();
	log_error("it is broken");
	assert_true(has_field("MESSAGE", "it is broken"));
	assert_true(has_field("PRIORITY", "3"));
	assert_null(memmem(journal.bytes, journal.len, "NEXUS", 5));
	assert_null(memmem(journal.bytes, journal.len, "LUN", 3));
	log_info("not at this level");
	assert_int_equal(journal.cnt, 1);
}

/* The stream takes it instead. */
T_TEST(line_goes_to_stderr_if_the_journal_is_gone)
{
	log_init("rdma-test", LOG_NOTICE);
	log_to_journal();
	journal.gone = true;
	log_error("it is broken");
	expect_stderr("error: it is broken\n");
	journal.gone = false;
	log_notice("and works");
	assert_int_equal(journal.cnt, 1);
	assert_true(has_field("MESSAGE", "and works"));
	expect_stderr("");
}

T_TEST(field_that_does_not_fit_is_left_out)
{
	char nexus[4096];
	int fd = journal_open();

	memset(nexus, 'n', sizeof(nexus) - 1);
	nexus[sizeof(nexus) - 1] = '\0';
	assert_true(journal_send(fd, &(struct journal_entry){
					     .severity = 6,
					     .program = "rdma-test",
					     .message = "short",
					     .nexus = nexus,
					     .volume = "disk",
				     }));
	assert_true(has_field("MESSAGE", "short"));
	assert_true(has_field("VOLUME", "disk"));
	assert_null(memmem(journal.bytes, journal.len, "NEXUS", 5));
	close(fd);
}

/* Of a daemon. The machine may have either. */
T_TEST(line_goes_to_syslog)
{
	int fd = journal_socket();
	char want[64];

	assert_true(syslog_send(fd, &(struct journal_entry){
					    .severity = 4,
					    .program = "rdma-test",
					    .message = "it is broken",
				    }));
	assert_string_equal(journal.address, "/dev/log");
	snprintf(want, sizeof(want), "<28>rdma-test[%d]: it is broken",
		 getpid());
	assert_int_equal(journal.len, strlen(want));
	assert_memory_equal(journal.bytes, want, journal.len);
	close(fd);
}

T_TEST(redirected_stderr_is_not_the_journal)
{
	setenv("JOURNAL_STREAM", "1:2", 1);
	assert_int_equal(journal_open(), -1);
	unsetenv("JOURNAL_STREAM");
	assert_int_equal(journal_open(), -1);
	log_init("rdma-test", LOG_NOTICE);
	log_to_journal();
	log_warn("plain");
	assert_int_equal(journal.cnt, 0);
	expect_stderr("rdma-test: warning: plain\n");
}
