# SPDX-License-Identifier: BSD-2-Clause
"""Faults to plant: (name, file, text that occurs there once, replacement).

Each fault makes the target report wrong results, lose data or leak, in a way
that has happened in similar systems. plant.py builds the simulation with one
fault at a time. If the text is not found exactly once, this is an error, so
that outdated faults are noticed.
"""

FAULTS = [
    # -- acknowledged data is stable
    ('answers SYNCHRONIZE CACHE before the flush', 'target/scsi/read_write.c',
     'return task->vol->read_only ? scsi_task_good(task) : secure(task);',
     'return scsi_task_good(task);'),
    ('ignores FUA', 'target/scsi/task.c',
     'blk->fua = task->cmd.fua || (task->stable && kind != BLOCK_CMD_READ);',
     'blk->fua = task->stable && kind != BLOCK_CMD_READ;'),
    ('makes no flush where FUA needs one', 'target/block/block.c',
     'return cmd->unstable && block_must_be_stable(cmd) &&',
     'return false && cmd->unstable && block_must_be_stable(cmd) &&'),
    ('swallows the error of a write', 'target/block/block.c',
     '\tif (res) {\n\t\tcmd->res = res;',
     '\tif (res && io->op != RBP_WRITE) {\n\t\tcmd->res = res;'),
    ('swallows the error of a read', 'target/block/block.c',
     '\tif (res) {\n\t\tcmd->res = res;',
     '\tif (res && io->op != RBP_READ) {\n\t\tcmd->res = res;'),

    # -- lost data is reported, also by the next process
    ('forgets a failed flush with the process', 'target/block/writers.c',
     '\t\tatomic_store(&ws->failed, true);', '\t\t;'),
    ('notes flushes and no result of theirs', 'target/block/block.c',
     '\telse if (io->op == RBP_FLUSH)\n'
     '\t\twriters_flush_ends(writers, cmd->flush_nr, res);',
     '\t(void)writers_flush_ends;'),
    ('forgets who has written to the cache', 'target/block/block.c',
     'if (cmd->unstable && cmd->writer && (!cmd->res || cmd->was_stopped))',
     'if (false)'),
    ('does not synchronize the store after a kill', 'target/scsi/volume_writers.c',
     '\terr = backend_sync(be);', '\terr = 0;'),
    ('tells one initiator of lost writes and no other',
     'target/block/writers.c', '\t\t\tatomic_store(&ws->writers[i].owed, true);',
     '\t\t{\n\t\t\tatomic_store(&ws->writers[i].owed, true);\n\t\t\tbreak;\n\t\t}'),
    ('tells of lost writes again and again', 'target/block/writers.c',
     '\tatomic_store(&w->owed, false);\n', ''),
    ('tells those whose writes were flushed', 'target/block/writers.c',
     '\treturn is_uncovered(ws, atomic_load(&w->wrote));',
     '\treturn atomic_load(&w->wrote);'),
    ('takes a write for covered by a flush that began before it',
     'target/block/writers.c', '>= atomic_load(&ws->stable);',
     '> atomic_load(&ws->stable);'),
    ('forgets writes that are done while a flush is', 'target/block/writers.c',
     '\traise_to(&ws->stable, nr);',
     '\traise_to(&ws->stable, atomic_load(&ws->begun) + 1);'),

    ('answers before the journal names the writer', 'target/block/block.c',
     '\treturn kept || cmd->was_stopped;', '\treturn true;'),
    ('drops a writer that has written meanwhile', 'target/block/writers.c',
     '\tw->being_kept = is_dirty(ws, w);',
     '\tw->being_kept = is_dirty(ws, w) && !kept;'),

    ('answers before the journal is synchronized', 'target/disk/journal.c',
     'io_uring_prep_fsync(sqe, j->fd, IORING_FSYNC_DATASYNC);',
     'io_uring_prep_nop(sqe);'),
    ('writes over what is stable in the journal', 'target/disk/journal.c',
     '(uint64_t)slot_place(!j->newest) + j->at',
     '(uint64_t)slot_place(j->newest) + j->at'),

    # -- the fence
    ('lets a login in before the old channels are closed', 'target/port/port.c',
     'if (login->single && !list_empty(&nexus->channels))', 'if (false)'),
    ('thinks a channel gone while the disk has commands', 'target/port/channel.c',
     '\tport_channel_closed(ch);\n\tif (list_empty(&ch->requests.busy))',
     '\tport_channel_closed(ch);\n\tif (true)'),
    ('goes on with commands of a closed channel', 'target/port/request.c',
     'if (!channel_can_answer(req->ch) || req->fate == FATE_SILENT) {',
     'if (req->fate == FATE_SILENT) {'),
    ('keeps what waits on a channel that closes', 'target/port/channel.c',
     '\tchannel_drop_unstarted(ch);\n\tchannel_give_up_writes(ch);',
     '\tchannel_give_up_writes(ch);'),
    ('lets a MULTI login end the others', 'target/port/port.c',
     '\tif (login->single)\n\t\tport_replace_nexus(nexus, login);',
     '\tport_replace_nexus(nexus, login);'),

    # -- signs of life
    ('writes without a sign of life', 'target/block/block_owner.c',
     'if (owner->use == BLOCK_READS || owner->heard || !sender ||\n'
     '\t    sender->lives(sender))', 'if (true)'),
    ('thinks that a sign of life never gets old', 'transport/xport.c',
     '\treturn reactor_real_us(ch->xp->cfg.reactor) - ch->heard_us <=\n'
     '\t       XP_SIGN_MS * 1000;', '\treturn ch->heard_us > 0;'),

    # -- task management
    ('answers ABORT TASK while the fabric has the command',
     'target/port/task_mgmt.c',
     'if (!task_mgmt_awaits(state))\n\t\treturn false;',
     'if (!task_mgmt_awaits(state))\n\t\treturn true;'),
    ('lets others read what an aborted write may still change',
     'target/port/request.c',
     'req->given_up = scsi_task_give_up(&req->task);',
     'req->given_up = false;'),
    ('answers the same command before and after the disk', 'target/port/request.c',
     '\tif (req->lingers) {\n\t\trequest_end_lingering(req);',
     '\tif (req->lingers && req->state == REQUEST_LINGERING) {\n'
     '\t\trequest_end_lingering(req);'),
    ('aborts the task with the next tag', 'target/port/task_mgmt.c',
     'req->tag == tm->task_tag;', 'req->tag == tm->task_tag + 1;'),
    ('ends only the commands of one worker', 'target/port/task_mgmt.c',
     ': &port->workers[i];', ': &port->workers[0];'),
    ('answers commands that were aborted', 'target/port/request.c',
     'if (!channel_can_answer(req->ch) || req->fate == FATE_SILENT) {',
     'if (!channel_can_answer(req->ch)) {'),
    ('leaves other initiators without an answer', 'target/port/request.c',
     '\tif (req->fate == FATE_ABORTED) {\n\t\trequest_respond_aborted(req);',
     '\tif (req->fate == FATE_ABORTED) {\n\t\trequest_drop(req);'),
    ('ends commands sent after the function', 'target/port/task_mgmt.c',
     'return tm->function != PREEMPT && req->ch == tm->req->ch &&',
     'return false && req->ch == tm->req->ch &&'),
    ('forgets to stop waiting for a buffer', 'target/port/request.c',
     '\t\tarena_cancel_wait(&req->waiter);', '\t\t;'),

    # -- copies between volumes
    ('copies: a fence does not find them', 'target/scsi/copy.c',
     'if (c->segments[i].from.vol == vol ||\n\t\t    '
     'c->segments[i].to.vol == vol)',
     'if (false)'),
    ('copies: begins one that may use the volume', 'target/scsi/copy.c',
     'return row && row->op == SCSI_OP_EXTENDED_COPY && !task->copies;',
     'return row && false;'),
    ('copies: looks at reservations only once', 'target/scsi/copy.c',
     'if (side_is_shut_out(task->nexus, side,\n',
     'if (false && side_is_shut_out(task->nexus, side,\n'),
    ('copies: no answer to one that was sent to another LUN',
     'target/port/task_mgmt.c',
     ' &&\n\t\t\t       tmf_is_for(part->tm, req)\n', '\n'),
    ('copies: swallows the error of a piece', 'target/scsi/copy.c',
     '\tif (blk->res) {\n\t\tscsi_task_log_blk(task);',
     '\tif (false) {\n\t\tscsi_task_log_blk(task);'),
    ('copies: goes to the source', 'target/scsi/copy.c',
     'blk->offset = side->at + c->at;',
     'blk->offset = c->segments[c->next].from.at + c->at;'),

    # -- answers, tags, residuals, credits
    ('answers twice, now and then', 'target/port/request.c',
     '\tif (status == 0)\n\t\trequest_delivered(req);',
     '\tstatic unsigned int n;\n\n'
     '\tif (status == 0 && channel_can_answer(req->ch) && ++n % 200 == 0) {\n'
     '\t\treq->chain.dir = XP_NO_DATA;\n\t\trequest_post_chain(req);\n'
     '\t\treturn;\n\t}\n'
     '\tif (status == 0)\n\t\trequest_delivered(req);'),
    ('answers with the tag of another command', 'target/port/request.c',
     '\trsp->tag = req->tag;',
     '\trsp->tag = ch->unasked.req->tag;'),
    ('ignores the residual of data-in', 'target/port/request.c',
     'rsp->in_resid = t->data_in_len - t->data_in_cnt;',
     'rsp->in_resid = 0;'),
    ('ignores the residual of data-out', 'target/port/request.c',
     '\t\trsp->resid_flags |= SRP_RSP_OUT_UNDERFLOW;', ''),
    ('loses the credit of a command that was dropped',
     'target/port/request.c', '\tsrp_ledger_abandon(&req->ch->ledger);',
     '\treq->ch->ledger.busy--;'),
    ('returns a credit too many', 'target/port/request.c',
     '\trsp->req_lim_delta = srp_ledger_answer(&ch->ledger);',
     '\trsp->req_lim_delta = srp_ledger_answer(&ch->ledger) +\n'
     '\t\t(ch->ledger.busy == 3);'),
    ('never returns credits by SRP_CRED_REQ', 'target/port/channel.c',
     'if (!channel_may_send_unasked(ch) || channel_awaits_answer(ch))',
     'if (true)'),
    ('returns a credit before its receive is posted', 'target/port/request.c',
     '\trequest_release_iu(req);\n\trequest_set_state(req, REQUEST_RESPONDING);',
     '\trequest_set_state(req, REQUEST_RESPONDING);'),

    # -- data
    ('sends the response before the data', 'transport/xport.c',
     '\tif (chain_has_data_left(c))\n\t\tchain_next_rdma(c, wr);',
     '\tif (c->dir == XP_RDMA_WRITE && c->send_cnt && c->len && !c->moved) {\n'
     '\t\tchain_next_send(c, wr);\n\t\tc->send_cnt = 0;\n'
     '\t\tc->all_posted = false;\n\t\treturn;\n\t}\n'
     '\tif (chain_has_data_left(c))\n\t\tchain_next_rdma(c, wr);'),
    ('goes to the wrong LUN', 'target/port/request.c',
     '? -1 : (int)lun;', '? -1 : (int)(lun ^ (cmd->out.len == 1536));'),
    ('is off by one block', 'target/scsi/task.c',
     'blk->offset = task->cmd.lba * task->vol->block_size;',
     'blk->offset = (task->cmd.lba + (task->cmd.lba == 2)) *\n'
     '\t\t      task->vol->block_size;'),
    ('takes the descriptors of another command', 'target/port/request.c',
     '\treq->descs = descs;\n',
     '\treq->descs = req->table ? descs : req->ch->unasked.req->own_descs;\n'),
    ('does not check a table that it has fetched', 'target/port/request.c',
     'if (srp_desc_table_check(req->table, data->desc_cnt, data->len) < 0) {',
     'if (false) {'),
    ('gives the receive back while its data is in use', 'target/port/request.c',
     '\tscsi_task_execute(&req->task);',
     '\tif (req->iu)\n\t\txp_iu_release(req->iu);\n\treq->iu = NULL;\n'
     '\tscsi_task_execute(&req->task);'),
    ('frees the buffer while the disk has it', 'target/port/request.c',
     '\tscsi_task_execute(&req->task);',
     '\tarena_put(req->worker->arena, req->block);\n'
     '\treq->block = NULL;\n'
     '\tscsi_task_execute(&req->task);'),
    ('frees a request before its response has left', 'target/port/request.c',
     '\treq->chain.done = request_response_done;\n\trequest_post_chain(req);',
     '\treq->chain.done = request_response_done;\n'
     '\trequest_post_chain(req);\n'
     '\tlist_del(&req->node);\n'
     '\treq->node.next = req->slab->free;\n'
     '\treq->slab->free = &req->node;'),
    ('leaks the block of a descriptor table', 'target/port/request.c',
     '\tarena_put(w->tables, table);\n', '\t(void)table;\n'),

    # -- the unit
    ('loses the unit attention of a reset', 'target/port/task_mgmt.c',
     'scsi_attention_others(tm->port->luns, tm->vol, /* except= */ NULL, '
     'SCSI_UA_LUN_RESET);', ';'),
    ('repeats unit attentions', 'target/scsi/nexus.c',
     'if (!(atomic_fetch_and(ua, ~bit) & bit))',
     'if (!(atomic_load(ua) & bit))'),
    ('forgets the unit attention of a nexus loss', 'target/port/port.c',
     'SRP_MULTICHAN_TERMINATED) scsi_nexus_lost(&nexus->scsi);',
     'SRP_MULTICHAN_TERMINATED) ;'),
    ('skips the check of reservations', 'target/scsi/task.c',
     'if (scsi_nexus_is_shut_out(task->nexus, task->vol,\n',
     'if (false && scsi_nexus_is_shut_out(task->nexus, task->vol,\n'),
    ('lets others between COMPARE and WRITE', 'target/block/block.c',
     '\t       cmd->kind == BLOCK_CMD_COMPARE_WRITE ||\n', ''),
    ('compares all but the last block', 'target/block/block.c',
     '\t\tif (memcmp(medium + same, wanted, n)) {',
     '\t\tif (memcmp(medium + same, wanted, n > 512 ? n - 512 : n)) {'),
    ('forgets who waits for blocks', 'target/block/block_owner.c',
     '\towner_tell_later(owner);\n\towner_leave(owner);',
     '\towner_leave(owner);'),
    ('does not wait for readers before it is alone', 'target/block/block_owner.c',
     'if (owner_watches(owner) && owner_awaits_readers(owner))',
     'if (false)'),
    ('sees only the first block of a reader', 'target/block/block_owner.c',
     'uint64_t len = (note - begin + 1) << 13;',
     'uint64_t len = 1 << 13;'),
    ('ignores the ORDERED attribute', 'target/port/task_set.c',
     '\tif (!task_set_must_wait(req))\n\t\treturn true;', '\treturn true;'),
]
