/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of a session. A URI names one or several addresses: of one
 * target, or of targets that serve one store in turn. The session is connected to
 * one address at a time, the present one. srp_initiator.h explains the states of
 * an address; only ini_path_enter() changes them.
 *
 * The first login tries the addresses in the order of the URI. Each later attempt
 * goes to the address after the present one; the first address follows the last
 * one. The session pauses before each round through the addresses, and not within
 * a round. If a connection has lasted for a while, the session tries the other
 * addresses at once when it is lost. The time limits of an outage (reconnect.c)
 * count for all addresses together.
 *
 * I/O goes on over a new connection on three conditions (reconnect.c):
 *
 *   - The volumes are the same as before. Otherwise the address is OTHER, and the
 *     session never tries it again. When all addresses are OTHER, the session is
 *     LOST.
 *   - The target reads and writes the volumes. Otherwise the address is in
 *     STANDBY. The session asks it again in each round, and does not activate it.
 *   - No write that went to another address can still arrive, see
 *     ini_path_is_fenced(). Otherwise the address is UNSAFE, and the session asks
 *     it again in each round.
 *
 * Thread: the context's.
 */
#ifndef INITIATOR_PATH_H
#define INITIATOR_PATH_H

#include <netdb.h>

#include "initiator/srp_initiator.h"
#include "base/error.h"
#include "protocol/scsi_sense.h"
#include "transport/uri.h"

struct ini_volume;

/* "[IPv6%scope]:65535" */
#define INI_PATH_TEXT_SIZE (XP_URI_HOST_SIZE + 10)

struct ini_path {
	enum srpi_path_state state;
	char host[XP_URI_HOST_SIZE];
	char text[INI_PATH_TEXT_SIZE]; /* "10.0.0.1:5555" */
	struct addrinfo *addrs;	       /* of the host */
	struct addrinfo *addr;	       /* that is being tried, or in use */
	bool logged_in;		       /* once, through addr */
	/* Addresses with the same number, other than 0, were seen to belong to
	 * one target. */
	unsigned int target;
	uint32_t reason; /* of the last failed attempt: reported once an
			  * outage */
	char why[ERROR_TEXT_SIZE];
};

struct ini_paths {
	struct ini_path all[XP_URI_ADDRESSES_MAX];
	unsigned int cnt;
	unsigned int now;     /* index of the present one */
	unsigned int home;    /* index of the one that was RUNNING last */
	unsigned int quick;   /* next attempts without a pause */
	unsigned int targets; /* numbers given to ini_path.target */
};

/* Resolves the hosts of s->uri, which may block. Thread: setup. Return: 0, or
 * -EHOSTUNREACH with @e. Always call ini_paths_free(). */
int ini_paths_resolve(struct srpi_session *s, struct error *e);
void ini_paths_free(struct srpi_session *s);

struct ini_path *ini_path_now(struct srpi_session *s);
/* Does the URI have several addresses? */
bool ini_paths_several(const struct srpi_session *s);

/* Makes every change of the state of an address, the present one. @why: for a
 * person, or NULL. */
void ini_path_enter(struct srpi_session *s, enum srpi_path_state state,
		    const struct error *why);
/* The present address has failed: standby when @why is ESHUTDOWN, else down. */
void ini_path_failed(struct srpi_session *s, const struct error *why);
/* The present address is RUNNING. */
void ini_path_up(struct srpi_session *s);
/* The present address was seen to be of the same target as that which was RUNNING
 * last. */
void ini_path_note_sibling(struct srpi_session *s);
/* Is the present address the one with the index @home, or was it seen to be of the same
 * target, and never of another one since? */
bool ini_path_is_sibling(const struct srpi_session *s, unsigned int home);

/* Goes to the next address that the first login has not tried. False: none is
 * left. */
bool ini_path_first_next(struct srpi_session *s);
/* Has the target of any address accepted a login? */
bool ini_paths_reached(const struct srpi_session *s);
/* Goes to the first address again, over another transport. */
void ini_path_first_again(struct srpi_session *s);
/* Goes to the next address of a round, for an attempt to reconnect. */
void ini_path_next(struct srpi_session *s);
/* Is every address OTHER? */
bool ini_paths_all_other(const struct srpi_session *s);
/* An outage begins. @stood: the connection was up for a while. */
void ini_paths_outage(struct srpi_session *s, bool stood);
/* Does the next attempt follow without a pause? Otherwise a new round
 * begins. */
bool ini_paths_quick(struct srpi_session *s);

/* Do the states of @v matter for this session? It is the volume that the URI
 * names, or the URI names none. */
bool ini_path_wants(const struct srpi_session *s, const struct ini_volume *v);
/* Does @sense say that reads and writes need another target port? */
bool ini_path_sense_is_standby(const struct scsi_sense *sense);

/* Volume @was was used by one address, and is now seen as @now by another one.
 * Are both addresses of one target? The first two conditions of
 * ini_path_is_fenced() tell. */
bool ini_path_is_same_target(const struct ini_volume *was,
			     const struct ini_volume *now);

/*
 * Volume @was was used by one address, and is now seen as @now by another one.
 * True when no command of ours that went to the first can change the volume any
 * more, or the login that has just succeeded has ended them all:
 *
 *   - The generation is the same (VPD page C0h). It is made by one target for
 *     one opening of one store, or is that of a file which one process of one
 *     machine has locked. So it is the same target, which has the same nexus
 *     for all its addresses, and its fence at the login holds
 *     (docs/evidence/reliability.md).
 *   - The target port has the same name (VPD page 83h): the same nexus, too.
 *   - Several targets serve the volume (two target port groups or more, before
 *     and now), and only the group of this address is active. Targets that do
 *     so fence the one that was active before they become active themselves.
 *
 * One more case does not depend on @was and @now: ini_path_is_sibling(). When the
 * target begins another generation, as after a boot of its machine, the session
 * goes on by the address that it used last, because it relies on the address
 * (reconnect.c). It relies on the other addresses of the same target as much.
 *
 * Otherwise it is another target, and nobody knows what the first one still
 * does.
 */
bool ini_path_is_fenced(const struct ini_volume *was,
			const struct ini_volume *now);

#endif
