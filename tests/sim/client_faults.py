# SPDX-License-Identifier: BSD-2-Clause
"""Like faults.py, for libsrpi and its simulation."""

FAULTS = [
    ('ends what discovery asks when I/O begins to fail', 'initiator/queue.c',
     '\trequeue_retries(s);\n\trefuse_list(s, &s->queue.waiting, err);',
     '\trequeue_retries(s);\n\trefuse_list(s, &s->queue.asked, -ECANCELED);\n'
     '\trefuse_list(s, &s->queue.waiting, err);'),
    ('counts all reasons to try again together', 'initiator/queue.c',
     '\tif (++cmd->tries[why] >= tries_max[why] || !queue_takes(s, cmd))',
     '\tif (++cmd->tries[0] >= (why == INI_RETRY_BUSY ? 3000 : 8) || '
     '!queue_takes(s, cmd))'),
    ('takes a deferred error for the command\'s own', 'protocol/scsi_sense.c',
     '\tif (sense->deferred)\n', '\tif (false)\n'),
    ('forgets what a deferred error says', 'initiator/volumes.c',
     '\tv->losses++;\n', ''),
    ('ignores MODE PARAMETERS CHANGED, and skips flushes',
     'initiator/blockdev.c',
     '\t\treturn !vol->info.write_cache && !ini_volume_is_dirty(vol) &&',
     '\t\treturn !vol->info.write_cache &&'),
    ('forgets a known loss when there is no cache', 'initiator/blockdev.c',
     '\t\treturn !vol->info.write_cache && !ini_volume_is_dirty(vol) &&\n'
     '\t\t       vol->losses == vol->losses_told;',
     '\t\treturn !vol->info.write_cache && !ini_volume_is_dirty(vol);'),
    ('decides on FUA when the write is done', 'initiator/blockdev.c',
     '(io_of(sio)->step_fua && vol->info.fua)',
     '(sio->fua && sio->op == SRPI_WRITE && vol->info.fua)'),
    ('takes a failed question for another volume', 'initiator/verify.c',
     '\tconst char *question = now ? verify_find_unanswered(was, now) : NULL;',
     '\tconst char *question = verify_find_unanswered(was, was);'),
    ('goes on when the unit may be another', 'initiator/link.c',
     '\tini_error_volume_changes(s, lun_field, sense);', '\treturn;'),
    ('forgets what an attempt before was told', 'initiator/volumes.c',
     '\t\tv->saw_reset |= s->passes > 0 && !v->saw_nexus_loss;',
     '\t\tv->saw_reset = false;'),
    ('ends a flush before what was sent before it', 'initiator/blockdev.c',
     '\tio_of(sio)->cmd.fence = true;', ''),
    ('lets a write overtake an earlier one of its block', 'initiator/range.c',
     '\trange->held = alone || !range_must_wait(of, range);',
     '\trange->held = true;'),
    ('answers that are overtaken by a change count', 'initiator/link.c',
     '\tif (!over && !err && s->look_again) {', '\tif (false) {'),
]
