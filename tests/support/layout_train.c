/* Steps of one rank, as the worker makes them. */
#include "support/layout_train.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"

/* messages with rows that a rank's program sends in this step */
static int64_t count_sends(const struct cs_trainer *t, const struct cs_program *program)
{
    const struct cs_rank_program *p = &program->rank[t->config.rank % program->n_ranks];
    int64_t n = 0;
    for (uint32_t i = 0; i < p->n_actions; i++) {
        const struct cs_action *a = &p->actions[i];
        if (a->op != CS_OP_SEND)
            continue;
        const struct cs_edge *edge = &t->config.plan->edges[a->edge];
        const int32_t branch = t->config.plan->stages[edge->from].branch;
        const int32_t e = t->config.graph->branches[branch].encoder;
        n += (e < 0 ? t->inputs[a->slot].n_tokens : t->inputs[a->slot].n_rows[e]) > 0;
    }
    return n;
}

static pthread_mutex_t outcome_lock = PTHREAD_MUTEX_INITIALIZER;

/* Of what ranks of a stage have in pieces, the hash is that of the first; an expert's that of who has
 * it. */
static bool is_elsewhere(const struct cs_trainer *t, const struct cs_shard *tensor)
{
    const struct cs_tp *tp = &t->params->tp;
    const bool is_cut = tensor->part != NULL && tensor->part->dim >= 0;
    const bool is_first = tp->at == 0 && (tp->ep_at == 0 || tensor->whole->n_dims < 3);
    return tensor->param->count == 0 || (is_cut && !is_first);
}

/* Values of a tensor; NULL: replicas divide it and this is not the first, who has them now. */
static enum cs_status values_of(const struct cs_trainer *t, const struct cs_shard *tensor,
                                const float **out, struct cs_err *err)
{
    struct cs_params *p = t->params;
    *out = NULL;
    if (cs_shard_is_whole(p, tensor))
        return cs_params_values(p, tensor, out, err);
    CS_TRY(cs_replicas_collect(t->config.replicas, p, tensor, CS_STATE_MASTER, p->staging, err));
    *out = cs_params_holders(p, tensor)->at == 0 ? p->staging : NULL;
    return CS_OK;
}

/* a copy of what another rank counts */
static bool is_copy(const struct cs_trainer *t, const struct cs_shard *tensor)
{
    const struct cs_plan *plan = t->config.plan;
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].copies > 1 && tensor->param->layer >= plan->stages[s].first_layer &&
            tensor->param->layer < plan->stages[s].first_layer + plan->stages[s].n_layers)
            return true;
    return false;
}

/* replicas have the same values, and so have copies */
static void hash_all(const struct cs_trainer *t, char (*out)[33])
{
    for (int32_t i = 0; i < t->params->n; i++) {
        const struct cs_shard *tensor = &t->params->shard[i];
        const float *values;
        char hash[33];
        if ((!tensor->is_counted && !is_copy(t, tensor)) || is_elsewhere(t, tensor))
            continue;
        CS_ASSERT(values_of(t, tensor, &values, NULL) == CS_OK);
        if (values == NULL)
            continue;
        cs_xxh3_128_hex(values, (size_t)tensor->param->count * sizeof *values, hash);
        pthread_mutex_lock(&outcome_lock);
        char *known = out[tensor->param->id];
        CS_ASSERT(known[0] == '\0' || strcmp(known, hash) == 0);
        memcpy(known, hash, sizeof hash);
        pthread_mutex_unlock(&outcome_lock);
    }
}

static enum cs_status keep_values(const struct cs_trainer *t, struct layout_outcome *o,
                                  struct cs_err *err)
{
    for (int32_t i = 0; o->keeps_values && i < t->params->n; i++) {
        const struct cs_shard *tensor = &t->params->shard[i];
        const float *values;
        if (!tensor->is_counted || tensor->param->count == 0)
            continue;
        CS_TRY(values_of(t, tensor, &values, err));
        if (values == NULL || cs_params_holders(t->params, tensor)->at > 0)
            continue;
        const size_t n = (size_t)tensor->whole->count;
        pthread_mutex_lock(&outcome_lock);
        float **copy = &o->value[tensor->param->id];
        if (*copy == NULL)
            *copy = malloc(n * sizeof **copy);
        CS_ASSERT(*copy != NULL);
        if (tensor->part != NULL)
            cs_tp_put(tensor->part, tensor->whole, values, *copy);
        else
            memcpy(*copy, values, n * sizeof **copy);
        pthread_mutex_unlock(&outcome_lock);
    }
    return CS_OK;
}

static enum cs_status keep_hash(const struct cs_trainer *t, const struct cs_shard *tensor,
                                char *known, struct cs_err *err)
{
    char hash[33];
    if (tensor == NULL)
        return CS_OK;
    CS_TRY(cs_params_hash(t->params, tensor, hash, err));
    pthread_mutex_lock(&outcome_lock);
    CS_ASSERT(known[0] == '\0' || strcmp(known, hash) == 0);
    memcpy(known, hash, sizeof hash);
    pthread_mutex_unlock(&outcome_lock);
    return CS_OK;
}

/* The two ends of a tied embedding on different ranks; replicas have the same. */
static enum cs_status keep_tied(const struct cs_trainer *t, struct layout_outcome *o,
                                struct cs_err *err)
{
    const struct cs_params *p = t->params;
    CS_ASSERT(p->tp.at < LAYOUT_SHARERS);
    if (p->tied != NULL && p->embed != NULL)
        return CS_OK;
    CS_TRY(keep_hash(t, p->tied, o->tied_copy[p->tp.at], err));
    return keep_hash(t, p->embed, o->tied_table[p->tp.at], err);
}

static void add_sources(struct layout_outcome *o, const struct cs_step_result *result)
{
    double sum = 0;
    int64_t tokens = 0;
    for (int k = 0; k < CS_SOURCES_MAX; k++) {
        CS_ASSERT(k < LAYOUT_SOURCES || result->source[k].tokens == 0);
        sum += result->source[k].sum;
        tokens += result->source[k].tokens;
        if (k >= LAYOUT_SOURCES)
            continue;
        o->source[k].sum += result->source[k].sum;
        o->source[k].tokens += result->source[k].tokens;
    }
    CS_ASSERT(tokens == result->trained_tokens);
    CS_ASSERT(fabs(sum - result->loss_sum) <= 1e-9 * fabs(result->loss_sum));
}

/* The evaluation once more, without the labels of other sources. */
static enum cs_status eval_alone(const struct layout_job *job, struct cs_trainer *t, int source,
                                 struct layout_outcome *o, struct cs_err *err)
{
    const struct cs_test_step *step = &job->step[0];
    struct cs_slot_counts counts[CS_TEST_SLOTS] = {{0}};
    struct cs_manifest eval = step->manifest;
    struct cs_step_result result;
    int32_t *kept[CS_TEST_SLOTS] = {0};
    eval.kind = CS_STEP_EVAL;
    eval.slot = counts;
    eval.trained_tokens = 0;
    for (int i = 0; i < eval.n_slots; i++) {
        const struct cs_slot *slot = &step->slot[i];
        const size_t n = (size_t)slot->head->n_tokens;
        CS_ASSERT(i < CS_TEST_SLOTS && (kept[i] = malloc((n + 1) * sizeof(int32_t))) != NULL);
        memcpy(kept[i], slot->labels, n * sizeof(int32_t));
        for (size_t k = 0; k < n; k++) {
            const bool is_other = slot->sample_sources[slot->doc[k]] != source;
            slot->head->n_labels -= is_other && slot->labels[k] >= 0;
            slot->labels[k] = is_other ? -1 : slot->labels[k];
        }
        cs_manifest_note(&eval, i, slot);
        eval.trained_tokens += slot->head->n_labels;
    }
    enum cs_status status = cs_trainer_step(t, &eval, step->slot, NULL, &result, err);
    o->alone[source] = status == CS_OK ? result.loss_sum : (double)NAN;
    for (int i = 0; i < eval.n_slots; i++) {
        const struct cs_slot *slot = &step->slot[i];
        memcpy(slot->labels, kept[i], (size_t)slot->head->n_tokens * sizeof(int32_t));
        slot->head->n_labels = step->manifest.slot[i].n_labels;
        free(kept[i]);
    }
    return status;
}

enum cs_status layout_train(const struct layout_job *job, struct cs_trainer *t,
                            struct layout_outcome *o, struct cs_err *err)
{
    CS_TRY(cs_params_load(t->params, job->made.spec->seed, err));
    o->rounds_rows = t->config.device->mem != NULL;
    int64_t allocs = 0;
    hash_all(t, o->before);
    for (int s = 0; s < LAYOUT_STEPS; s++) {
        struct cs_step_result result;
        const struct cs_program *program;
        const struct cs_test_step *step = &job->step[s];
        CS_TRY(cs_trainer_step(t, &step->manifest, step->slot, NULL, &result, err));
        allocs = s == 0 ? t->config.device->n_allocs : allocs;
        CS_ASSERT(t->config.device->n_allocs == allocs); /* all of it is planned */
        CS_TRY(cs_trainer_program(t, step->manifest.n_slots, false, &program, err));
        pthread_mutex_lock(&outcome_lock);
        if (result.has_loss) {
            o->loss[s] += result.loss_sum;
            o->norm[s] = result.grad_norm;
        }
        o->messages += result.counts.messages_sent;
        o->bytes += result.counts.bytes_sent;
        o->sends += count_sends(t, program);
        o->saved[t->config.rank] = result.counts.saved_bytes;
        o->kept[t->config.rank] = cs_exec_memory(t->exec).kept;
        o->host[t->config.rank] = cs_exec_memory(t->exec).host;
        pthread_mutex_unlock(&outcome_lock);
    }
    struct cs_step_result result;
    struct cs_manifest eval = job->step[0].manifest;
    eval.kind = CS_STEP_EVAL;
    CS_TRY(cs_trainer_step(t, &eval, job->step[0].slot, NULL, &result, err));
    if (result.has_loss) {
        pthread_mutex_lock(&outcome_lock);
        o->eval_samples += result.n_samples;
        o->eval_exact += result.n_exact;
        o->eval_loss += result.loss_sum;
        add_sources(o, &result);
        pthread_mutex_unlock(&outcome_lock);
    }
    for (int k = 0; k < LAYOUT_SOURCES && cs_plan_world(job->made.plan) == 1; k++)
        CS_TRY(eval_alone(job, t, k, o, err));
    hash_all(t, o->hash);
    CS_TRY(keep_values(t, o, err));
    return keep_tied(t, o, err);
}
