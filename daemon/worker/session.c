/* Runs the steps that the feeder hands over, saves and reports; at the end tells the weights. */
#include "worker/session.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/system/clock.h"
#include "core/wire/wire.h"
#include "worker/save.h"
#include "worker/train/trainer_context.h"

static void put_event(const struct cs_session *s, enum cs_event_kind kind, int64_t start_ns,
                      int64_t end_ns, bool is_eval)
{
    if (s->ring == NULL)
        return;
    const struct cs_event event = {
        .start_ns = (uint64_t)start_ns,
        .end_ns = (uint64_t)end_ns,
        .step = (uint32_t)s->step,
        .action = UINT32_MAX,
        .kind = (uint16_t)kind,
        .flags = is_eval ? CS_EVENT_EVAL : 0,
    };
    cs_ring_put(s->ring, &event);
}

/* [number, sum, tokens] of the sources that had some */
static json_t *by_source(const struct cs_step_result *r)
{
    json_t *list = json_array();
    for (int i = 0; i < CS_SOURCES_MAX; i++)
        if (r->source[i].tokens > 0)
            json_array_append_new(list, json_pack("[i, o, I]", i, cs_json_num(r->source[i].sum),
                                                  (json_int_t)r->source[i].tokens));
    return list;
}

static const int64_t sequence_every_ns = 500000000; /* it is for people, and steps may be short */

/* while the step's slots are still held; NULL: none is told */
static json_t *make_sequence(struct cs_session *s, bool is_eval)
{
    const int64_t now_ns = cs_now_ns();
    if (is_eval || (s->sequence_ns > 0 && now_ns - s->sequence_ns < sequence_every_ns))
        return NULL;
    json_t *sequence = cs_trainer_context_sequence(s->trainer);
    s->sequence_ns = sequence != NULL ? now_ns : s->sequence_ns;
    return sequence;
}

/* takes sequence, NULL: none */
static void report_step(const struct cs_session *s, const struct cs_manifest *manifest,
                        const struct cs_step_result *r, json_t *sequence)
{
    json_t *msg = cs_msg_new("worker.step");
    cs_msg_set_int(msg, "rank", s->rank);
    cs_msg_set_int(msg, "step", manifest->step);
    cs_msg_set_str(msg, "kind", r->is_eval ? "eval" : "train");
    if (r->has_loss) {
        cs_msg_set_num(msg, "loss_sum", r->loss_sum);
        cs_msg_set_int(msg, "trained_tokens", r->trained_tokens);
        cs_msg_set(msg, "sources", by_source(r));
        if (r->has_balance)
            cs_msg_set_num(msg, "aux_loss", r->balance);
        cs_msg_set_int(msg, "samples", r->is_eval ? r->n_samples : manifest->n_samples);
        if (r->is_eval)
            cs_msg_set_int(msg, "correct", r->n_exact);
    }
    if (!r->is_eval) {
        cs_msg_set_num(msg, "grad_norm", r->grad_norm);
        cs_msg_set_num(msg, "lr", r->lr);
        cs_msg_set_bool(msg, "is_skipped", r->is_skipped);
    }
    cs_msg_set_int(msg, "messages_sent", r->counts.messages_sent);
    cs_msg_set_int(msg, "bytes_sent", r->counts.bytes_sent);
    const struct cs_context_figures *c = &r->context;
    if (c->is_split && s->trainer->params->tp.at == 0) /* who shares matrices has the same rows */
        cs_msg_set(msg, "context",
                   json_pack("[I, I, o, I]", (json_int_t)c->rows, (json_int_t)c->pairs,
                             cs_json_num(c->flops), (json_int_t)(c->wait_ns / 1000)));
    if (sequence != NULL)
        cs_msg_set(msg, "sequence", sequence);
    cs_control_send(s->control, msg);
}

static void report_save(void *user, int64_t step, enum cs_status status,
                        const struct cs_ckpt_file files[2], const struct cs_err *err)
{
    const struct cs_session *s = user;
    json_t *msg = cs_msg_new(status == CS_OK ? "worker.saved" : "worker.save_failed");
    cs_msg_set_int(msg, "rank", s->rank);
    cs_msg_set_int(msg, "step", step);
    if (status == CS_OK) {
        json_t *list = json_array();
        for (int i = 0; i < 2; i++) {
            json_t *file = json_object();
            cs_msg_set_str(file, "path", files[i].name);
            cs_msg_set_int(file, "bytes", (int64_t)files[i].bytes);
            cs_msg_set_str(file, "hash", files[i].xxh3);
            if (files[i].n_nonfinite > 0)
                cs_msg_set_int(file, "nonfinite", files[i].n_nonfinite);
            json_array_append_new(list, file);
        }
        cs_msg_set(msg, "files", list);
    } else {
        json_t *error = json_object();
        cs_msg_set_str(error, "status", cs_status_slug(status));
        cs_msg_set_str(error, "text", err->text);
        cs_msg_set(msg, "error", error);
    }
    cs_control_send(s->control, msg);
}

/* What replicas and ranks of a stage have is whole on the first of them, which tells it. */
static bool tells(const struct cs_params *p)
{
    return p->replica == 0 && p->tp.at == 0;
}

/* Whole values of an entry on the rank that tells; the others only give their part. */
static enum cs_status whole_values(const struct cs_session *s, const struct cs_shard *t,
                                   const float **out, struct cs_err *err)
{
    struct cs_params *p = s->trainer->params;
    const float *own = p->staging;
    if (p->n_replicas == 1 || (t->grad == NULL && cs_shard_is_whole(p, t)))
        CS_TRY(cs_params_values(p, t, &own, err));
    else
        CS_TRY(cs_replicas_collect(s->trainer->config.replicas, p, t, CS_STATE_MASTER, p->staging,
                                   err));
    *out = own;
    if (cs_params_holders(p, t)->at == 0)
        CS_TRY(cs_expert_ranks_collect(s->trainer->experts, t, own, &own, err));
    *out = own;
    return p->replica == 0 ? cs_tensor_ranks_collect(s->trainer->tensors, t, own, out, err) : CS_OK;
}

static enum cs_status add_weight(const struct cs_session *s, const struct cs_shard *t, json_t *list,
                                 struct cs_err *err)
{
    const float *values;
    char hash[33];
    CS_TRY(whole_values(s, t, &values, err));
    if (!tells(s->trainer->params))
        return CS_OK;
    cs_xxh3_128_hex(values, (size_t)t->whole->count * sizeof *values, hash);
    json_array_append_new(list, json_pack("[i, s]", (int)t->param->id, hash));
    return CS_OK;
}

/* The head's copy of a tied embedding whose own rank is another one: the same bits, if
 * all is well. */
static enum cs_status add_tied_copy(const struct cs_session *s, json_t *msg, struct cs_err *err)
{
    const struct cs_params *p = s->trainer->params;
    const float *values;
    char hash[33];
    if (p->tied == NULL || p->embed != NULL)
        return CS_OK;
    CS_TRY(whole_values(s, p->tied, &values, err));
    if (!tells(p))
        return CS_OK;
    cs_xxh3_128_hex(values, (size_t)p->tied->whole->count * sizeof *values, hash);
    cs_msg_set_str(msg, "tied_copy", hash);
    return CS_OK;
}

/* The hashes of all that this rank answers for, frozen ones too. */
static enum cs_status make_done(const struct cs_session *s, json_t **out, struct cs_err *err)
{
    struct cs_params *p = s->trainer->params;
    json_t *msg = cs_msg_new("worker.done"), *weights = json_array();
    enum cs_status status = CS_OK;
    for (int32_t i = 0; status == CS_OK && i < p->n; i++)
        if (p->shard[i].is_counted)
            status = add_weight(s, &p->shard[i], weights, err);
    if (status == CS_OK)
        status = add_tied_copy(s, msg, err);
    cs_msg_set_int(msg, "rank", s->rank);
    cs_msg_set_int(msg, "step", s->step);
    cs_msg_set(msg, "weights", weights);
    *out = msg;
    return status;
}

static void show_step(const struct cs_session *s)
{
    if (s->ring == NULL)
        return;
    atomic_store_explicit(&s->ring->head->step, s->step, memory_order_relaxed);
    atomic_store_explicit(&s->ring->head->progress_ns, (uint64_t)cs_now_ns(), memory_order_relaxed);
}

static enum cs_status run_step(struct cs_session *s, const struct cs_manifest *manifest,
                               struct cs_slot **slots_memory, struct cs_err *err)
{
    struct cs_step_result result;
    const int64_t start = cs_now_ns();
    if (manifest->n_slots < 1 || manifest->n_slots > CS_STEP_MAX_SLOTS)
        return cs_fail(err, CS_CORRUPT, "the manifest of step %lld has %d slots",
                       (long long)manifest->step, manifest->n_slots);
    struct cs_slot *slots = realloc(*slots_memory, (size_t)manifest->n_slots * sizeof *slots);
    if (slots == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a step of %d slots", manifest->n_slots);
    *slots_memory = slots;
    for (int32_t i = 0; i < manifest->n_slots; i++)
        cs_pool_slot(s->pool, manifest, i, &slots[i]);
    CS_TRY(cs_trainer_step(s->trainer, manifest, slots, NULL, &result, err));
    json_t *sequence = make_sequence(s, result.is_eval);
    for (int32_t i = 0; i < manifest->n_slots; i++)
        cs_pool_release(s->pool, manifest, i);
    put_event(s, CS_EVENT_STEP, start, cs_now_ns(), result.is_eval);
    report_step(s, manifest, &result, sequence);
    return CS_OK;
}

static enum cs_status next_manifest(struct cs_session *s, struct cs_manifest *manifest,
                                    struct cs_err *err)
{
    uint64_t waited = 0;
    CS_TRY(cs_pool_next(s->pool, manifest, &waited, err));
    s->step = manifest->step;
    show_step(s);
    const int64_t now = cs_now_ns();
    if (waited > 0)
        put_event(s, CS_EVENT_DATA, now - (int64_t)waited, now, manifest->kind == CS_STEP_EVAL);
    return CS_OK;
}

static enum cs_status run_all(struct cs_session *s, struct cs_saver *saver, struct cs_slot **slots,
                              struct cs_err *err)
{
    struct cs_manifest manifest = {.flags = s->is_over ? CS_STEP_LAST : 0};
    while (!(manifest.flags & CS_STEP_LAST)) {
        CS_TRY(next_manifest(s, &manifest, err));
        CS_TRY(run_step(s, &manifest, slots, err));
        if (manifest.flags & CS_STEP_CHECKPOINT) {
            const int64_t start = cs_now_ns();
            cs_saver_start(saver, manifest.step);
            put_event(s, CS_EVENT_SAVE, start, cs_now_ns(), false);
        }
    }
    json_t *done = NULL;
    const enum cs_status status =
        make_done(s, &done, err); /* while the last checkpoint is written */
    cs_saver_wait(saver);
    if (status == CS_OK)
        cs_control_send(s->control, done);
    else
        json_decref(done);
    return status;
}

enum cs_status cs_session_run(struct cs_session *session, struct cs_err *err)
{
    struct cs_saver *saver = NULL;
    struct cs_slot *slots = NULL; /* of a step */
    session->step = -1;
    enum cs_status status = cs_saver_new(session->trainer->params, session->ckpt_dir, session->rank,
                                         report_save, session, &saver, err);
    if (status == CS_OK)
        status = run_all(session, saver, &slots, err);
    cs_saver_free(saver);
    free(slots);
    return status;
}
