/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Describes errors of a session in one line for a person: the action, both
 * addresses, the reason and what to try.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "initiator/session.h"
#include "protocol/scsi_cdb.h"
#include "protocol/srp_iu.h"

/* A numeric host with its scope. */
#define HOST_SIZE      80
#define ADDR_TEXT_SIZE (HOST_SIZE + 16)
#define PEER_TEXT_SIZE (XP_URI_HOST_SIZE + ADDR_TEXT_SIZE + 3)
#define WAY_TEXT_SIZE  (ADDR_TEXT_SIZE + 24)

/* "10.0.0.1:5555", "[fe80::1%eth0]:5555" */
static void addr_text(const struct sockaddr *addr, socklen_t len, char *buf)
{
	char host[HOST_SIZE];
	char port[8];

	if (getnameinfo(addr, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(buf, ADDR_TEXT_SIZE, "?");
	else
		snprintf(buf, ADDR_TEXT_SIZE,
			 addr->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
			 host, port);
}

/* The address of the target, with the name that the user gave. */
static void peer_text(const struct srpi_session *s, char *buf, size_t len)
{
	const struct ini_path *path = &s->paths.all[s->paths.now];
	char addr[ADDR_TEXT_SIZE];
	const char *host = addr;
	size_t host_len = strlen(path->host);

	addr_text(path->addr->ai_addr, path->addr->ai_addrlen, addr);
	if (*host == '[')
		host++;
	if (strncmp(host, path->host, host_len) == 0)
		snprintf(buf, len, "%s", addr);
	else
		snprintf(buf, len, "%s (%s)", path->host, addr);
}

/*
 * Our address: that of the channel, or of the URI. Without one, the address that
 * the kernel chooses for a datagram to the target, which is not sent.
 */
static void local_text(const struct srpi_session *s,
		       const struct ini_channel *ch, char *buf)
{
	const struct addrinfo *peer = s->paths.all[s->paths.now].addr;
	const char *known = ch && ch->xp ? xp_chan_local(ch->xp) : "";
	struct sockaddr_storage addr = { 0 };
	socklen_t len = sizeof(addr);
	char text[ADDR_TEXT_SIZE];
	char *port;
	int fd;

	buf[0] = '\0';
	if (*known) {
		snprintf(buf, ADDR_TEXT_SIZE, "%s", known);
		return;
	}
	if (*s->uri.route.source) {
		snprintf(buf, ADDR_TEXT_SIZE, "%s", s->uri.route.source);
		return;
	}
	fd = socket(peer->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (connect(fd, peer->ai_addr, peer->ai_addrlen) == 0 &&
	    getsockname(fd, (struct sockaddr *)&addr, &len) == 0) {
		addr_text((struct sockaddr *)&addr, len, text);
		/* The port of the datagram means nothing. */
		port = strrchr(text, ':');
		if (port)
			*port = '\0';
		snprintf(buf, ADDR_TEXT_SIZE, "%s", text);
	}
	close(fd);
}

/* " over TCP from 10.0.0.2" */
static void way_text(const struct srpi_session *s, const struct ini_channel *ch,
		     char *buf, size_t len)
{
	char local[ADDR_TEXT_SIZE];

	local_text(s, ch, local);
	snprintf(buf, len, " over %s%s%s", xp_kind_traits(s->kind)->fabric,
		 *local ? " from " : "", local);
}

/* ---- no login ---- */

static const struct login_hint {
	int err;
	const char *what; /* NULL: the text of the transport */
	const char *try_tcp;
	const char *try_rdma;
} login_hints[] = {
	{ -ECONNREFUSED, "connection refused",
	  "is rdma-target running there, over TCP? (srp+rdma:// asks for RDMA; "
	  "rdma-doctor says more)",
	  "is a target running there, over RDMA? (srp+tcp:// asks for TCP; "
	  "rdma-doctor says more)" },
	{ -ETIMEDOUT, "no answer",
	  "check the address, the port, the route and the firewall; rdma-doctor "
	  "says more",
	  "check the address, the port, the route and the firewall; rdma-doctor "
	  "says more" },
	{ -ECONNRESET, "it closed the connection before it answered",
	  "is it rdma-target? its log may say why",
	  "is it an SRP target? its log may say why" },
	{ -ENOPROTOOPT, "what listens there is no rdma-target",
	  "check address and port", "check address and port" },
	{ -EHOSTUNREACH, "no route to that address",
	  "check the address, the routes (ip route) and the target's firewall, "
	  "which may reject in this way; rdma-doctor says more",
	  "check the address and the routes (ip route)" },
	{ -ENETUNREACH, "no route to that address",
	  "check the address and the routes (ip route)",
	  "check the address and the routes (ip route)" },
	{ -ENOKEY, NULL, "rdma-ctl key list shows the names that it knows",
	  "" },
	{ -EKEYREJECTED, NULL,
	  "rdma-doctor shows the print of this one, rdma-ctl key list those of "
	  "the target",
	  "" },
	{ -ENODEV, NULL, "srp+rdma:// asks for RDMA",
	  "see rdma-doctor; srp+tcp:// does without RDMA" },
	{ -EISCONN, NULL, "",
	  "this machine had it before it lost power, say; the target's connection "
	  "manager must end it: try again" },
	{ -EPROTO, NULL, "is it an SRP target?", "is it an SRP target?" },
	{ -EINVAL, NULL,
	  "a route of type blackhole (ip route get)? or a link-local address "
	  "without its interface, as in [fe80::1%eth0]?",
	  "" },
	{ -EACCES, NULL,
	  "a route of type prohibit or a firewall forbids it (ip route get, "
	  "nft list ruleset); rdma-doctor says more",
	  "" },
	{ -EPERM, NULL,
	  "a firewall of this machine forbids it (nft list ruleset); "
	  "rdma-doctor says more",
	  "" },
};

/* TCP: the connection is made, and the login has no answer. */
static const struct login_hint login_unanswered = {
	.what = "it took the connection, but sends no answer",
	.try_tcp = "another program has the port, or the target hangs; "
		   "rdma-doctor says more",
	.try_rdma = "",
};

/* Over TCP, the channel knows its own address when it is connected. */
static bool login_is_connected(const struct srpi_session *s,
			       const struct ini_channel *ch)
{
	return !xp_kind_traits(s->kind)->needs_device && ch && ch->xp &&
	       *xp_chan_local(ch->xp);
}

static const struct login_hint *login_find_hint(const struct srpi_session *s,
						const struct ini_channel *ch,
						int err)
{
	static const struct login_hint unknown = { .try_tcp = "",
						   .try_rdma = "" };

	/* After a lost connection, error_login_failed() has other reasons. */
	/* With a key, the transport says that it has met no TLS. */
	if (err == -ENOPROTOOPT && s->key)
		return &unknown;
	if (err == -ETIMEDOUT && !s->reconnect.up_us &&
	    login_is_connected(s, ch))
		return &login_unanswered;
	for (size_t i = 0; i < ARRAY_SIZE(login_hints); i++) {
		if (login_hints[i].err == err)
			return &login_hints[i];
	}
	return &unknown;
}

static void error_login_failed(struct srpi_session *s,
			       const struct ini_channel *ch, const char *peer,
			       const char *way, const struct error *why)
{
	const struct login_hint *h = login_find_hint(s, ch, why->err);
	const char *hint = xp_kind_traits(s->kind)->needs_device ? h->try_rdma
								 : h->try_tcp;

	/* A target answers a login only when no command of the old
	 * connection can reach the disk. */
	if (why->err == -ETIMEDOUT && s->reconnect.up_us)
		hint = "the network is down, or the target hangs, or its disk "
		       "is still busy with earlier commands";
	error_set(&s->error, why->err ? why->err : -ECONNABORTED,
		  "cannot log in to %s%s: %s%s%s", peer, way,
		  h->what ? h->what : why->text, *hint ? "; " : "", hint);
}

static void error_login_rejected(struct srpi_session *s, const char *peer,
				 const char *way,
				 const struct srp_login_rej *rej)
{
	const char *hint = srp_rej_reason_hint(rej->reason);

	error_set(&s->error, -ECONNREFUSED,
		  "cannot log in to %s%s: the target says: %s (reason "
		  "0x%08x)%s%s",
		  peer, way, srp_rej_reason_name(rej->reason), rej->reason,
		  *hint ? "; " : "", hint);
}

bool ini_error_no_login(struct srpi_session *s, const struct ini_channel *ch,
			const struct error *why)
{
	struct srp_login_rej rej;
	char peer[PEER_TEXT_SIZE];
	char way[WAY_TEXT_SIZE];

	peer_text(s, peer, sizeof(peer));
	way_text(s, ch, way, sizeof(way));
	s->login_why = *why;
	s->login_rejected = ch && ini_channel_rejected(ch, &rej);
	s->login_reason = s->login_rejected ? rej.reason : 0;
	if (s->login_rejected) {
		error_login_rejected(s, peer, way, &rej);
		return true;
	}
	error_login_failed(s, ch, peer, way, why);
	return false;
}

void ini_note_fewer_channels(struct srpi_session *s,
			     const struct ini_channel *ch,
			     const struct error *why)
{
	struct srp_login_rej rej;

	if (ch && ini_channel_rejected(ch, &rej))
		snprintf(s->conn.fewer, sizeof(s->conn.fewer),
			 "the target says: %s (reason 0x%08x)",
			 srp_rej_reason_name(rej.reason), rej.reason);
	else
		snprintf(s->conn.fewer, sizeof(s->conn.fewer), "%.*s",
			 (int)sizeof(s->conn.fewer) - 1, why->text);
}

/* ---- later ---- */

void ini_error_connection_lost(struct srpi_session *s,
			       const struct ini_channel *ch)
{
	char peer[PEER_TEXT_SIZE];
	char way[WAY_TEXT_SIZE];

	peer_text(s, peer, sizeof(peer));
	way_text(s, ch, way, sizeof(way));
	error_set(&s->error, -EIO, "lost the connection to %s%s: %s", peer, way,
		  ch->why.text);
}

void ini_timeout_text(const struct ini_cmd *cmd, uint64_t age_ms, char *buf,
		      size_t len)
{
	const struct scsi_cdb_info *info;
	uint32_t lun = 0;

	if (!cmd) {
		snprintf(buf, len,
			 "the target has given no credit for a command for "
			 "%.1f s",
			 (double)age_ms / 1000);
		return;
	}
	info = scsi_cdb_find(cmd->cdb[0], cmd->cdb[1] & 0x1f);
	srp_lun_decode(cmd->lun, &lun);
	snprintf(buf, len, "%s of LUN %u had no answer for %.1f s",
		 info ? info->name : "a command", lun, (double)age_ms / 1000);
}

void ini_error_still_down(struct srpi_session *s, uint64_t down_ms,
			  const char *what)
{
	char peer[PEER_TEXT_SIZE];
	char why[sizeof(s->error.text)];

	peer_text(s, peer, sizeof(peer));
	memcpy(why, s->error.text, sizeof(why));
	if (ini_paths_several(s))
		error_set(&s->error, -EIO,
			  "none of the %u addresses could be used for %.1f "
			  "s%s: %s",
			  s->paths.cnt, (double)down_ms / 1000, what, why);
	else
		error_set(&s->error, -EIO,
			  "no connection to %s for %.1f s%s: %s", peer,
			  (double)down_ms / 1000, what, why);
}

void ini_back_text(struct srpi_session *s, uint64_t down_ms, struct error *ret)
{
	const struct ini_path *home = &s->paths.all[s->paths.home];
	bool moved = s->paths.now != s->paths.home;
	char peer[PEER_TEXT_SIZE];
	char way[WAY_TEXT_SIZE];

	peer_text(s, peer, sizeof(peer));
	way_text(s, s->channels[0], way, sizeof(way));
	error_set(ret, s->reconnect.lost_writes ? -EIO : 0,
		  "%s %s%s %s %.1f s%s%s%s",
		  s->looking ? "the volumes of" : "connected to", peer, way,
		  s->looking ? "are the same, seen in" : "again after",
		  (double)down_ms / 1000, moved ? ", in place of " : "",
		  moved ? home->text : "",
		  s->reconnect.lost_writes
			  ? "; the target may have lost writes that were not "
			    "flushed, so the next flush fails"
			  : "");
}

void ini_error_standby(struct srpi_session *s, const struct ini_volume *v)
{
	ini_error_other_volume(s, v, "the target port is in standby");
	s->error.err = -ESHUTDOWN;
}

void ini_error_unsafe(struct srpi_session *s, const struct ini_volume *v)
{
	ini_error_other_volume(
		s, v,
		"another target shows it, and may not know what the one before "
		"still writes; not used");
	s->error.err = -EXDEV;
}

/* Lists all addresses, each with its reason. */
void ini_error_no_path(struct srpi_session *s)
{
	int err = s->error.err;

	error_set(&s->error, err, "none of the %u addresses can be used",
		  s->paths.cnt);
	for (unsigned int i = 0; i < s->paths.cnt; i++)
		error_add(&s->error, "%s (%u) %s", i ? "," : ":", i + 1,
			  s->paths.all[i].why);
}

void ini_error_other_volume(struct srpi_session *s, const struct ini_volume *v,
			    const char *what)
{
	char peer[PEER_TEXT_SIZE];

	peer_text(s, peer, sizeof(peer));
	error_set(&s->error, -ESTALE, "volume '%s' (LUN %u) of %s: %s",
		  v->info.name, v->info.lun, peer, what);
}

void ini_error_unanswered(struct srpi_session *s, const struct ini_volume *v,
			  const char *what)
{
	char text[80];

	snprintf(text, sizeof(text), "%s was answered before and fails now",
		 what);
	ini_error_other_volume(s, v, text);
	s->error.err = -EIO;
}

/* "LUN 3 of 10.0.0.1:5555" */
static void lun_text(const struct srpi_session *s, uint64_t lun_field,
		     char *buf, size_t len)
{
	char peer[PEER_TEXT_SIZE];
	uint32_t lun = 0;

	srp_lun_decode(lun_field, &lun);
	peer_text(s, peer, sizeof(peer));
	snprintf(buf, len, "LUN %u of %s", lun, peer);
}

void ini_error_volume_changes(struct srpi_session *s, uint64_t lun_field,
			      const struct scsi_sense *sense)
{
	char lun[PEER_TEXT_SIZE + 20];
	char text[SCSI_SENSE_TEXT_LEN];

	lun_text(s, lun_field, lun, sizeof(lun));
	error_set(&s->error, -EAGAIN, "%s has changed: %s", lun,
		  sense ? scsi_sense_text(sense, text)
			: "its blocks have another size");
}

void ini_error_standby_sense(struct srpi_session *s, uint64_t lun_field,
			     const struct scsi_sense *sense)
{
	char lun[PEER_TEXT_SIZE + 20];
	char text[SCSI_SENSE_TEXT_LEN];

	lun_text(s, lun_field, lun, sizeof(lun));
	error_set(&s->error, -ESHUTDOWN, "%s: %s", lun,
		  scsi_sense_text(sense, text));
}

void ini_error_keeps_changing(struct srpi_session *s)
{
	char peer[PEER_TEXT_SIZE];

	peer_text(s, peer, sizeof(peer));
	error_set(&s->error, -EAGAIN,
		  "cannot learn the volumes of %s: it says again and again "
		  "that they have changed",
		  peer);
}

void ini_error_deferred(struct srpi_session *s, const struct ini_volume *v,
			const struct scsi_sense *sense)
{
	char lun[PEER_TEXT_SIZE + 20];
	char text[SCSI_SENSE_TEXT_LEN];

	lun_text(s, v->lun_field, lun, sizeof(lun));
	error_set(&s->error, -EIO,
		  "%s has failed a write that it had acknowledged: %s; the "
		  "next flush fails",
		  lun, scsi_sense_text(sense, text));
}

void ini_error_no_answer(struct srpi_session *s)
{
	const struct ini_channel *ch = s->channels[0];
	const char *question;
	uint32_t lun;
	char peer[PEER_TEXT_SIZE];
	char way[WAY_TEXT_SIZE];

	peer_text(s, peer, sizeof(peer));
	way_text(s, ch, way, sizeof(way));
	question = ini_discovery_asks(s, &lun);
	error_set(&s->error, -ETIMEDOUT,
		  "%s%s does not answer %s of LUN %u within %u ms; is it "
		  "overloaded or stopped?",
		  peer, way, question, lun, s->options.timeout_ms);
}

void ini_error_no_volumes(struct srpi_session *s, int err, const char *what,
			  uint32_t lun, const struct scsi_sense *sense)
{
	char text[SCSI_SENSE_TEXT_LEN] = "";
	char peer[PEER_TEXT_SIZE];

	peer_text(s, peer, sizeof(peer));
	if (sense)
		scsi_sense_text(sense, text);
	error_set(&s->error, err,
		  "cannot learn the volumes of %s: %s of LUN %u: %s%s%s%s",
		  peer, what, lun, strerror(-err), *text ? " (" : "", text,
		  *text ? ")" : "");
}
