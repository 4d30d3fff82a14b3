/* A job at real widths on one rank, trainers of it, weights and slots; see parity.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/vlm.h"
#include "core/base/hash.h"
#include "core/base/philox.h"
#include "core/plan/make/planner.h"
#include "gpu/parity/parity.h"

/* Prime: rows of matrices that repeat the block are all different. */
enum { BLOCK = 1048573 };

void parity_must(enum cs_status status, const struct cs_err *err)
{
    if (status == CS_OK)
        return;
    fprintf(stderr, "gpu_test_parity: %s: %s\n", cs_status_slug(status), err->text);
    exit(1);
}

/* The directory's own configuration, through the loader. */
static json_t *read_config(const char *dir)
{
    struct cs_hfdir *open = NULL;
    struct cs_err err = {0};
    parity_must(cs_hfdir_open(dir, "", &open, &err), &err);
    json_t *config = json_deep_copy(cs_hfdir_config(open));
    cs_hfdir_close(open);
    return config;
}

static json_t *modules(const struct parity_shape *s)
{
    json_t *list = json_array();

    const struct {
        const char *name, *kind, *part;
    } row[] = {
        {"vision.encoder",   "encoder",   "encoder"  },
        {"vision.projector", "projector", "projector"},
        {"llm",              "llm",       "llm"      },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(row); i++) {
        char dir[PATH_MAX + 32] = "";
        if (s->dir != NULL)
            snprintf(dir, sizeof dir, "%s/%s", s->dir, row[i].part);
        json_t *m = json_pack("{s:s, s:s, s:s, s:s}", "name", row[i].name, "kind", row[i].kind,
                              "dir", dir, "init", s->dir != NULL ? "weights" : "random");
        if (i == 1) {
            json_object_set_new(m, "family", json_string("mlp"));
            json_object_set_new(m, "layers", json_integer(2));
        } else {
            json_object_set_new(
                m, "config",
                s->dir != NULL ? read_config(dir)
                : i == 0       ? cs_vlm_vision_config(1, s->vision_layers, s->image)
                               : cs_vlm_llm_config(&cs_vlm_llm_1b, 1, s->llm_layers, s->vocab));
        }
        if (i == 0)
            json_object_set_new(m, "token", json_string("<image>"));
        json_array_append_new(list, m);
    }
    return list;
}

static json_t *document(const struct parity_shape *s)
{
    const struct cs_vlm_setting setting = {.is_encoder_frozen = s->is_encoder_frozen,
                                           .is_projector_frozen = s->is_projector_frozen,
                                           .is_llm_frozen = s->is_llm_frozen};
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:{s:o, s:o}, s:{s:{s:i, s:i, s:s}, s:s, s:s, s:{s:{s:i}, "
        "s:{s:i}}, s:i, s:i}, s:{s:s, s:s, s:s}, s:{s:s, s:f, s:[f, f], s:f, s:f, s:f, s:i}, "
        "s:{s:s}}",
        "schema", "cornstarch.job/1", "name", "parity", "seed", 1, "steps", 100, "batch_samples",
        s->slots, "model", "modules", modules(s), "rules", cs_vlm_rules(&setting), "plan",
        "cluster", "nodes", 1, "devices_per_node", 2, "device", "h100-80g", "modality",
        "encoder-parallel", "schedule", "1f1b", "parallel", "vision", "pp", 1, "llm", "pp", 1,
        "seq_tokens", s->seq_tokens, "slots", s->slots, "data", "format", "llava", "json",
        "/nowhere.json", "images", "/nowhere", "optimizer", "kind", "adamw", "lr", s->lr, "betas",
        0.9, 0.95, "eps", 1e-8, "weight_decay", 0.1, "clip", 1.0, "warmup_steps", 0, "lr", "kind",
        "constant");
}

void parity_job_open(struct parity_job *job, const struct parity_shape *shape)
{
    struct cs_err err = {0};
    struct cs_cluster cluster;
    job->arena = cs_arena_new(0);
    job->root = document(shape);
    parity_must(cs_spec_read(job->root, job->arena, &job->spec, &err), &err);
    parity_must(cs_graph_build(job->spec, false, job->arena, &job->graph, &err), &err);
    parity_must(cs_cluster_read(job->spec->cluster, 0, &cluster, &err), &err);
    parity_must(cs_plan_make(job->spec, job->graph, &cluster, job->arena, &job->plan, &err), &err);
    for (int i = 0; i < job->plan->n_stages; i++)
        job->plan->stages[i].rank = 0;
    job->plan->n_ranks = 1;
    job->plan->n_groups = 0; /* they were of other ranks */
    job->plan->is_tied_across = false;
}

void parity_job_close(struct parity_job *job)
{
    json_decref(job->root);
    cs_arena_free(job->arena);
    *job = (struct parity_job){0};
}

void parity_subject_open(struct parity_subject *s, const struct parity_job *job, const char *label,
                         const char *device, const char *precision, const char *state)
{
    struct cs_err err = {0};
    s->label = label;
    s->spec = *job->spec;
    s->spec.state = state;
    parity_must(cs_device_open(device, precision, &s->device, &err), &err);
    const struct cs_trainer_config config = {
        .spec = &s->spec, .graph = job->graph, .plan = job->plan, .device = &s->device};
    parity_must(cs_trainer_new(&config, &s->trainer, &err), &err);
}

void parity_subject_close(struct parity_subject *s)
{
    cs_trainer_free(s->trainer);
    cs_device_close(&s->device);
    *s = (struct parity_subject){0};
}

void parity_fill_weights(struct parity_subject *s)
{
    struct cs_params *p = s->trainer->params;
    struct cs_err err = {0};
    float *block = malloc(BLOCK * sizeof *block), *values = NULL;
    int64_t room = 0;
    cs_philox_fill_normal(1, 2, 0, BLOCK, 0.02, block);
    for (int32_t i = 0; i < p->n; i++) {
        struct cs_shard *t = &p->shard[i];
        const int64_t n = t->param->count;
        if (t->is_tied_head && p->embed != NULL)
            continue;
        if (n > room) {
            free(values);
            values = malloc((size_t)n * sizeof *values);
            room = n;
        }
        /* where in the block a tensor begins is a matter of its name */
        int64_t at =
            (int64_t)(cs_fnv1a64(t->param->name, strlen(t->param->name)) % (uint64_t)BLOCK);
        for (int64_t k = 0; k < n;) {
            const int64_t part = n - k < BLOCK - at ? n - k : BLOCK - at;
            memcpy(values + k, block + at, (size_t)part * sizeof *values);
            k += part;
            at = 0;
        }
        for (int64_t k = 0; k < n && t->param->init == CS_INIT_ONE; k++)
            values[k] = 1.0f + 5.0f * values[k];
        parity_must(cs_params_set(p, t, values, &err), &err);
    }
    free(values);
    free(block);
}

void parity_batch_new(struct parity_batch *b, const struct cs_slot_budget *budget, int slots)
{
    struct cs_slot_layout layout;
    memset(b, 0, sizeof *b);
    CS_ASSERT(slots <= (int)CS_ARRAY_LEN(b->slot));
    cs_slot_layout_make(budget, &layout);
    b->memory = calloc((size_t)slots, layout.bytes);
    CS_ASSERT(b->memory != NULL);
    for (int s = 0; s < slots; s++) {
        cs_slot_view(&layout, budget, b->memory + (size_t)s * layout.bytes, &b->slot[s]);
        b->slot[s].head->slot = s;
    }
    b->manifest.n_slots = slots;
    b->manifest.slot = b->counts;
}

void parity_batch_free(struct parity_batch *b)
{
    free(b->memory);
    b->memory = NULL;
}

void parity_add_sample(struct parity_batch *b, const struct cs_slot_budget *budget, int slot, int n,
                       const int32_t *id, const int32_t *label, const uint8_t *is_image,
                       const uint8_t *pixels)
{
    struct cs_slot *s = &b->slot[slot];
    struct cs_slot_head *head = s->head;
    const int first = head->n_tokens, sample = head->n_samples;
    int filled = 0;
    CS_ASSERT(first + n <= budget->seq_tokens);
    for (int i = 0; i < n; i++) {
        const int row = first + i;
        s->ids[row] = id[i];
        s->labels[row] = i + 1 < n && label[i + 1] >= 0 ? label[i + 1] : -1;
        s->doc[row] = sample;
        s->pos[row] = i;
        head->n_labels += s->labels[row] >= 0;
        if (is_image[i])
            s->rows[0][head->n_rows[0] + filled++] = row;
    }
    const struct cs_item_shape shape = cs_slot_largest_item(budget, 0);
    CS_ASSERT(filled % shape.rows == 0);
    for (int i = 0; i < filled / shape.rows; i++) {
        const struct cs_item *item = cs_slot_add_item(s, budget, 0, &shape, NULL);
        CS_ASSERT(item != NULL);
        if (pixels != NULL)
            memcpy(s->data[0] + item->offset, pixels + (size_t)i * (size_t)shape.bytes,
                   (size_t)shape.bytes);
    }
    head->n_tokens += n;
    s->sample_ids[sample] = (uint64_t)sample;
    s->sample_rows[sample] = first;
    s->sample_rows[sample + 1] = first + n;
    head->n_samples++;
    b->manifest.n_samples++;
    b->manifest.trained_tokens += head->n_labels - b->manifest.slot[slot].n_labels;
    cs_manifest_note(&b->manifest, slot, s);
}
