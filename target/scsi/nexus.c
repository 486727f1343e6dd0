/* SPDX-License-Identifier: BSD-2-Clause */
/* The I_T nexus: unit attentions, and everything that ends with the nexus. */
#include <assert.h>
#include <string.h>

#include "protocol/wire.h"
#include "target/scsi/disk.h"

/* In the order in which they are reported. */
static const struct {
	uint32_t bit;
	enum scsi_asc code;
} attentions[] = {
	{ SCSI_UA_POWER_ON, SCSI_ASC_POWER_ON },
	{ SCSI_UA_LUN_RESET, SCSI_ASC_DEVICE_RESET },
	{ SCSI_UA_NEXUS_LOSS, SCSI_ASC_NEXUS_LOSS },
	{ SCSI_UA_PREEMPTED, SCSI_ASC_RESERVATIONS_PREEMPTED },
	{ SCSI_UA_RELEASED, SCSI_ASC_RESERVATIONS_RELEASED },
	{ SCSI_UA_UNREGISTERED, SCSI_ASC_REGISTRATIONS_PREEMPTED },
	{ SCSI_UA_MEDIUM_MAY_DIFFER, SCSI_ASC_MEDIUM_MAY_HAVE_CHANGED },
	{ SCSI_UA_PATH_CHANGED, SCSI_ASC_ACCESS_STATE_CHANGED },
	{ SCSI_UA_CAPACITY_CHANGED, SCSI_ASC_CAPACITY_CHANGED },
	{ SCSI_UA_MODE_CHANGED, SCSI_ASC_MODE_PARAMETERS_CHANGED },
	{ SCSI_UA_LUNS_CHANGED, SCSI_ASC_REPORTED_LUNS_CHANGED },
};

static uint64_t nexus_principal(const struct scsi_nexus *nexus,
				unsigned int lun)
{
	return nexus->principal ? __atomic_load_n(&nexus->principal[lun],
						  __ATOMIC_RELAXED)
				: 0;
}

static void nexus_init_writer(struct scsi_nexus *nexus, unsigned int lun)
{
	struct scsi_writer *writer = &nexus->writers[lun];

	atomic_store(&writer->ref, NULL);
	memcpy(writer->port, nexus->initiator.b, WRITER_PRINCIPAL_AT);
	wire_put64(writer->port + WRITER_PRINCIPAL_AT,
		   nexus_principal(nexus, lun));
}

void scsi_nexus_init(struct scsi_nexus *nexus, struct lun_map *luns,
		     const struct srp_port_id *initiator)
{
	nexus->luns = luns;
	if (!nexus->vol)
		nexus->vol = luns->vol;
	nexus->initiator = *initiator;
	for (unsigned int i = 0; i < SCSI_NEXUS_COPIES; i++)
		atomic_init(&nexus->copies[i], 0);
	for (unsigned int i = 0; i < LUNS_MAX; i++) {
		atomic_init(&nexus->ua[i], SCSI_UA_POWER_ON);
		atomic_init(&nexus->deferred[i], 0);
		atomic_init(&nexus->reserved[i], 0);
		if (scsi_nexus_slot(nexus, i))
			nexus_init_writer(nexus, i);
		nexus->prevents[i] = 0;
	}
	nexus_buffer_init(&nexus->buffer);
	list_init(&nexus->node);
	pthread_mutex_lock(&luns->nexuses_lock);
	list_add_tail(&luns->nexuses, &nexus->node);
	pthread_mutex_unlock(&luns->nexuses_lock);
}

struct scsi_pr_nexus scsi_nexus_at(const struct scsi_nexus *nexus,
				   unsigned int lun)
{
	return (struct scsi_pr_nexus){
		.port = nexus->initiator,
		.target_port = scsi_nexus_slot(nexus, lun)->info.target_port,
		.principal = nexus_principal(nexus, lun),
	};
}

void scsi_nexus_take_principal(struct scsi_nexus *nexus, unsigned int lun,
			       uint64_t *at, uint64_t principal)
{
	struct volume *vol = scsi_nexus_slot(nexus, lun);
	uint8_t bytes[8];

	if (nexus_principal(nexus, lun) == principal)
		return;
	unit_state_rename(&vol->state, nexus, lun, at, principal);
	wire_put64(bytes, principal);
	writers_rename(&vol->dev.writers, &nexus->writers[lun].ref,
		       nexus->writers[lun].port, bytes);
}

bool scsi_nexus_is(const struct scsi_nexus *nexus, const struct volume *vol,
		   const struct scsi_pr_nexus *who)
{
	if (!srp_port_id_equal(&nexus->initiator, &who->port))
		return false;
	for (unsigned int i = 0; i < LUNS_MAX; i++) {
		if (scsi_nexus_slot(nexus, i) == vol)
			return scsi_pr_principal_fits(
				scsi_nexus_at(nexus, i).principal,
				who->principal);
	}
	return false;
}

static void leave_records(struct scsi_nexus *nexus)
{
	for (unsigned int i = 0; i < LUNS_MAX; i++) {
		struct volume *vol = scsi_nexus_slot(nexus, i);

		if (vol)
			writers_leave(&vol->dev.writers,
				      &nexus->writers[i].ref);
	}
}

static void end_reservation(struct scsi_nexus *nexus, unsigned int lun)
{
	struct scsi_pr_nexus who = scsi_nexus_at(nexus, lun);

	unit_state_nexus_lost(&scsi_nexus_slot(nexus, lun)->state, &who,
			      &nexus->prevents[lun]);
}

static void end_reservations(struct scsi_nexus *nexus)
{
	for (unsigned int i = 0; i < LUNS_MAX; i++) {
		if (scsi_nexus_slot(nexus, i))
			end_reservation(nexus, i);
	}
}

void scsi_nexus_end(struct scsi_nexus *nexus)
{
	pthread_mutex_lock(&nexus->luns->nexuses_lock);
	list_del(&nexus->node);
	pthread_mutex_unlock(&nexus->luns->nexuses_lock);
	end_reservations(nexus);
}

void scsi_nexus_fini(struct scsi_nexus *nexus)
{
	leave_records(nexus);
	nexus_buffer_fini(&nexus->buffer);
}

void scsi_nexus_gain(struct scsi_nexus *nexus, unsigned int lun)
{
	nexus->prevents[lun] = 0;
	nexus_init_writer(nexus, lun);
	atomic_store(&nexus->reserved[lun], 0);
	atomic_store(&nexus->deferred[lun], 0);
	scsi_copies_forget(nexus, lun);
	/* Everything pending for the former volume of this LUN is void. */
	atomic_store(&nexus->ua[lun], SCSI_UA_POWER_ON);
}

void scsi_nexus_lose(struct scsi_nexus *nexus, unsigned int lun)
{
	struct volume *vol = scsi_nexus_slot(nexus, lun);

	writers_leave(&vol->dev.writers, &nexus->writers[lun].ref);
	end_reservation(nexus, lun);
}

void scsi_nexus_lost(struct scsi_nexus *nexus)
{
	scsi_nexus_attention(nexus, -1, SCSI_UA_NEXUS_LOSS);
	end_reservations(nexus);
	for (unsigned int i = 0; i < LUNS_MAX; i++)
		scsi_copies_forget(nexus, i);
}

void scsi_nexus_attention(struct scsi_nexus *nexus, int lun, uint32_t bit)
{
	assert(lun < LUNS_MAX);
	for (int i = 0; i < LUNS_MAX; i++) {
		if (lun < 0 || i == lun)
			atomic_fetch_or(&nexus->ua[i], bit);
	}
}

/* Calls @fn for each nexus that sees @vol, or only those of @who, with its LUN. */
static void nexus_each(struct lun_map *luns, const struct volume *vol,
		       const struct scsi_pr_nexus *who,
		       void (*fn)(struct scsi_nexus *nexus, unsigned int lun,
				  const void *arg),
		       const void *arg)
{
	struct list *it;

	pthread_mutex_lock(&luns->nexuses_lock);
	list_for_each(it, &luns->nexuses) {
		struct scsi_nexus *nexus =
			container_of(it, struct scsi_nexus, node);

		if (who && !scsi_nexus_is(nexus, vol, who))
			continue;
		for (unsigned int i = 0; i < LUNS_MAX; i++) {
			if (scsi_nexus_slot(nexus, i) == vol)
				fn(nexus, i, arg);
		}
	}
	pthread_mutex_unlock(&luns->nexuses_lock);
}

struct news {
	const struct scsi_nexus *except;
	uint32_t bits;
};

static void nexus_tell(struct scsi_nexus *nexus, unsigned int lun,
		       const void *arg)
{
	const struct news *news = arg;

	if (nexus != news->except)
		atomic_fetch_or(&nexus->ua[lun], news->bits);
}

void scsi_attention_others(struct lun_map *luns, const struct volume *vol,
			   const struct scsi_nexus *except, uint32_t bits)
{
	const struct news news = { except, bits };

	nexus_each(luns, vol, /* who= */ NULL, nexus_tell, &news);
}

void scsi_attention_nexus(struct lun_map *luns, const struct volume *vol,
			  const struct scsi_pr_nexus *who, uint32_t bits)
{
	const struct news news = { .bits = bits };

	nexus_each(luns, vol, who, nexus_tell, &news);
}

/* The lock of the unit must be held. */
static void nexus_allow_removal(struct scsi_nexus *nexus, unsigned int lun,
				const void *arg)
{
	unit_state_prevent_locked(&scsi_nexus_slot(nexus, lun)->state,
				  &nexus->prevents[lun], /* prevent= */ false);
}

void scsi_nexus_allow_removal(struct lun_map *luns, struct volume *vol,
			      const struct scsi_pr_nexus *who)
{
	pthread_mutex_lock(&vol->state.lock);
	nexus_each(luns, vol, who, nexus_allow_removal, NULL);
	pthread_mutex_unlock(&vol->state.lock);
}

static void nexus_forget_copies(struct scsi_nexus *nexus, unsigned int lun,
				const void *arg)
{
	scsi_copies_forget(nexus, lun);
}

static struct unit_reset *nexus_reset_of(struct unit_turn *turn)
{
	return container_of(turn, struct unit_reset, turn);
}

static struct volume *nexus_reset_volume(struct unit_reset *reset)
{
	return container_of(reset, struct volume, state.reset);
}

/* True: the saved mode values become current anyway, by the reset that runs. */
static bool nexus_reset_runs(struct volume *vol, bool runs)
{
	struct unit_state *st = &vol->state;
	bool did;

	pthread_mutex_lock(&st->lock);
	did = st->reset.runs;
	st->reset.runs = runs;
	pthread_mutex_unlock(&st->lock);
	return did;
}

/* An initiator that was told of the reset may already have read the old
 * values. */
static void reset_changes(struct unit_turn *turn)
{
	struct unit_reset *reset = nexus_reset_of(turn);

	scsi_attention_others(reset->luns, nexus_reset_volume(reset),
			      /* except= */ NULL, SCSI_UA_LUN_RESET);
}

static void reset_changed(struct unit_turn *turn, int err)
{
	struct volume *vol = nexus_reset_volume(nexus_reset_of(turn));

	if (err)
		volume_log(LOG_ERROR, NULL, vol,
			   "LOGICAL UNIT RESET: the write cache stays on, as "
			   "it cannot be flushed: %s",
			   strerror(-err));
	/* From here on, @turn may be that of the next reset, on another worker. */
	nexus_reset_runs(vol, false);
	unit_turn_end(vol);
	atomic_fetch_sub(&vol->managed, 1);
}

static void reset_turn(struct unit_turn *turn, int err)
{
	struct volume *vol = nexus_reset_volume(nexus_reset_of(turn));

	unit_state_set_modes(vol, &vol->info.mode_saved, /* save= */ false,
			     reset_changes, reset_changed);
}

void scsi_reset_finish(struct lun_map *luns, struct volume *vol,
		       struct block_worker *w)
{
	struct unit_reset *reset = &vol->state.reset;

	unit_state_reset(vol);
	nexus_each(luns, vol, /* who= */ NULL, nexus_forget_copies, NULL);
	if (nexus_reset_runs(vol, true))
		return;
	atomic_fetch_add(&vol->managed, 1);
	reset->luns = luns;
	unit_turn_take(vol, w, &reset->turn, reset_turn);
}

const struct scsi_disk_info *scsi_task_info(const struct scsi_task *task,
					    struct scsi_disk_info *copy)
{
	if (!scsi_nexus_is_reader(task->nexus, task->lun))
		return &task->vol->info;
	*copy = task->vol->info;
	copy->read_only = true;
	return copy;
}

bool scsi_nexus_take_attention(struct scsi_nexus *nexus, int lun,
			       struct scsi_sense *ret_sense)
{
	_Atomic uint32_t *ua = &nexus->ua[lun];

	if (!atomic_load_explicit(ua, memory_order_relaxed))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(attentions); i++) {
		uint32_t bit = attentions[i].bit;

		/* Of several workers' channels, only one gets it. */
		if (!(atomic_fetch_and(ua, ~bit) & bit))
			continue;
		*ret_sense =
			scsi_sense(SCSI_KEY_UNIT_ATTENTION, attentions[i].code);
		return true;
	}
	return false;
}

/* ---- deferred errors ---- */

/* One word, so that channels on several workers can take it. 0: none. Otherwise
 * key and code, and as much of an LBA as fits. */
#define DEFERRED_KEY_SHIFT  60
#define DEFERRED_CODE_SHIFT 44
#define DEFERRED_INFO_VALID (1ull << 43)
#define DEFERRED_INFO_MASK  (DEFERRED_INFO_VALID - 1)

void scsi_nexus_defer(struct scsi_nexus *nexus, int lun,
		      const struct scsi_sense *sense)
{
	uint64_t word = (uint64_t)sense->key << DEFERRED_KEY_SHIFT |
			(uint64_t)sense->code << DEFERRED_CODE_SHIFT;
	uint64_t none = 0;

	if (sense->info_valid && sense->info <= DEFERRED_INFO_MASK)
		word |= DEFERRED_INFO_VALID | sense->info;
	atomic_compare_exchange_strong(&nexus->deferred[lun], &none, word);
}

bool scsi_nexus_take_deferred(struct scsi_nexus *nexus, int lun,
			      struct scsi_sense *ret_sense)
{
	_Atomic uint64_t *deferred = &nexus->deferred[lun];
	uint64_t word = atomic_load_explicit(deferred, memory_order_relaxed);

	if (!word)
		return false;
	word = atomic_exchange(deferred, 0);
	if (!word)
		return false;
	*ret_sense = scsi_sense(word >> DEFERRED_KEY_SHIFT,
				(uint16_t)(word >> DEFERRED_CODE_SHIFT));
	ret_sense->deferred = true;
	ret_sense->info_valid = word & DEFERRED_INFO_VALID;
	ret_sense->info = word & DEFERRED_INFO_MASK;
	return true;
}
