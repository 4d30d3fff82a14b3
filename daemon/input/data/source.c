/* Opens a data set with all that its samples need, and makes sample i: read, rendered, tokenized, with
 * its pictures. */
#include "input/data/source.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "core/data/sample_order.h"
#include "input/chat/own.h"
#include "input/data/mix.h"
#include "input/data/reader.h"

/* the shuffle of pictures is a permutation of its own, the same in every epoch */
static const uint64_t shuffle_key = 0x5348554646494d47u;

struct cs_source {
    struct cs_arena *arena;
    struct cs_dataset *set;
    struct cs_record_keys *keys;
    struct cs_tokenizer *tok;
    const char *tok_dir;
    struct cs_template chat;
    struct cs_sample_rules rules;
    struct cs_reader reader[CS_MAX_ENCODERS];
    struct cs_sizes *sizes;
    struct cs_reader_caches caches;
    int32_t n_encoders;
    uint64_t seed;
    bool is_shuffled;
};

/* Pictures of one size: the plan was made for the size that the processor makes. */
static enum cs_status check_budget(const struct cs_reader *r, const struct cs_item_budget *b,
                                   struct cs_err *err)
{
    const struct cs_processor *p = &r->processor;

    if (b->height == 0 || (b->item_rows == r->bounds.item_rows && b->height == p->height &&
                           b->width == p->width && b->channels == p->channels))
        return CS_OK;
    return cs_fail(err, CS_PLAN,
                   "module %s: the plan has pictures of %d x %d with %d row%s, the processor "
                   "makes %d x %d with %d",
                   r->name, b->height, b->width, b->item_rows, CS_PLURAL(b->item_rows), p->height,
                   p->width, r->bounds.item_rows);
}

/* Encoders in the order of the graph, which is that of the slots. */
static enum cs_status open_encoders(struct cs_source *s, const struct cs_graph *graph,
                                    const struct cs_slot_budget *budget, const char **tokens,
                                    struct cs_err *err)
{
    for (int e = 0; e < graph->n_encoders; e++) {
        const struct cs_module *module = cs_graph_encoder(graph, e);
        tokens[e] = module->spec->token;
        CS_TRY(cs_reader_open(module, e, &s->reader[e], err));
        if (budget != NULL)
            CS_TRY(check_budget(&s->reader[e], &budget->enc[e], err));
    }
    s->n_encoders = graph->n_encoders;
    return CS_OK;
}

static enum cs_status open_text(struct cs_source *s, const struct cs_module *llm,
                                const struct cs_spec_data *data, const char *const *tokens,
                                struct cs_err *err)
{
    const char *dir = llm->spec->tokenizer;

    if (dir == NULL || dir[0] == '\0')
        dir = llm->spec->dir;
    if (dir == NULL || dir[0] == '\0')
        return cs_fail(err, CS_INVALID, "module %s has no tokenizer", llm->name);
    s->tok_dir = dir;
    CS_TRY(cs_tokenizer_open(dir, &s->tok, err));
    CS_TRY(cs_template_choose(data->template_, dir, s->tok, s->arena, &s->chat, err));
    CS_TRY(cs_sample_rules_init(&s->rules, s->tok, &s->chat, tokens, s->n_encoders, err));
    s->rules.vocab = llm->arch.vocab;
    for (int e = 0; e < s->n_encoders; e++)
        if (s->rules.token_id[e] >= llm->arch.vocab)
            return cs_fail(err, CS_INVALID,
                           "token %s has id %d, but module %s has %d embeddings: enlarge them "
                           "(resize_token_embeddings of transformers), or name a token that the "
                           "model has (token of the encoder)",
                           tokens[e], s->rules.token_id[e], llm->name, llm->arch.vocab);
    return CS_OK;
}

static enum cs_status lay_out(void *user, int32_t n_of_sample, struct cs_arena *arena,
                              struct cs_sample_media *media, struct cs_err *err)
{
    const struct cs_source *s = user;

    return cs_reader_lay_out(&s->reader[media->encoder], s->set, s->sizes, n_of_sample, arena,
                             media, err);
}

static enum cs_status open_all(struct cs_source *s, const struct cs_spec *spec,
                               const struct cs_graph *graph, const struct cs_spec_data *data,
                               const struct cs_source_options *options, struct cs_err *err)
{
    const char *tokens[CS_MAX_ENCODERS] = {0};
    const struct cs_slot_budget *budget = options->budget;
    struct cs_dataset_options set;

    CS_TRY(cs_mix_options(data, s->arena, &set, err));
    set.max_items = options->max_items;
    CS_TRY(cs_record_keys_of(graph, s->arena, &s->keys, err));
    CS_TRY(open_encoders(s, graph, budget, tokens, err));
    CS_TRY(open_text(s, cs_graph_llm(graph), data, tokens, err));
    s->rules.seq_tokens = budget != NULL ? budget->seq_tokens : spec->seq_tokens;
    s->rules.lay_out = lay_out;
    s->rules.user = s;
    s->rules.limit = budget;
    s->seed = spec->seed;
    s->is_shuffled = data->shuffle_images;
    CS_TRY(cs_dataset_open(data->json, &set, s->keys, &s->set, err));
    if (!options->has_disk_cache || data->cache_dir[0] == '\0')
        return CS_OK;
    return cs_disk_cache_open(data->cache_dir, (uint64_t)data->cache_bytes, &s->caches.disk, err);
}

enum cs_status cs_source_open(const struct cs_spec *spec, const struct cs_graph *graph,
                              const struct cs_spec_data *data,
                              const struct cs_source_options *options, struct cs_source **out,
                              struct cs_err *err)
{
    struct cs_source *s = calloc(1, sizeof *s);
    enum cs_status status = CS_OK;

    *out = NULL;
    if (s == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", data->json);
    s->arena = cs_arena_new(0);
    s->caches.memory = cs_cache_new(options->cache_bytes);
    s->sizes = cs_sizes_new();
    status = s->sizes == NULL ? cs_fail(err, CS_NO_MEMORY, "no memory to open %s", data->json)
                              : open_all(s, spec, graph, data, options, err);
    if (status != CS_OK) {
        cs_source_close(s);
        return status;
    }
    *out = s;
    return CS_OK;
}

void cs_source_close(struct cs_source *s)
{
    if (s == NULL)
        return;
    cs_dataset_close(s->set);
    cs_tokenizer_close(s->tok);
    cs_cache_free(s->caches.memory);
    cs_disk_cache_close(s->caches.disk);
    cs_sizes_free(s->sizes);
    cs_arena_free(s->arena);
    free(s);
}

uint64_t cs_source_count(const struct cs_source *s)
{
    return cs_dataset_count(s->set);
}

const char *cs_source_path(const struct cs_source *s)
{
    return cs_dataset_path(s->set);
}

void cs_source_identity(const struct cs_source *s, struct cs_dataset_id *out)
{
    cs_dataset_identity(s->set, out);
}

uint64_t cs_source_order(const struct cs_source *s, uint64_t seed, uint64_t epoch,
                         uint64_t position)
{
    return cs_dataset_order(s->set, seed, epoch, position);
}

const struct cs_record_keys *cs_source_keys(const struct cs_source *s)
{
    return s->keys;
}

const struct cs_template *cs_source_template(const struct cs_source *s)
{
    return &s->chat;
}

const struct cs_tokenizer *cs_source_tokenizer(const struct cs_source *s)
{
    return s->tok;
}

const char *cs_source_tokenizer_dir(const struct cs_source *s)
{
    return s->tok_dir;
}

enum cs_status cs_source_record(const struct cs_source *s, uint64_t index, struct cs_record **out,
                                struct cs_err *err)
{
    return cs_dataset_read(s->set, index, NULL, out, err);
}

bool cs_source_disk_cache(const struct cs_source *s, struct cs_disk_cache_use *out)
{
    if (s->caches.disk == NULL)
        return false;
    cs_disk_cache_use(s->caches.disk, out);
    return true;
}

/* The control: the pictures of another sample, where it has some. */
static void swap_files(const struct cs_source *s, struct cs_record *record)
{
    uint64_t other = cs_order_at(s->seed ^ shuffle_key, 0, cs_dataset_count(s->set), record->index);
    struct cs_record *from = NULL;

    if (other == record->index || cs_dataset_read(s->set, other, NULL, &from, NULL) != CS_OK)
        return;
    for (int e = 0; e < s->n_encoders; e++)
        for (int i = 0; i < record->n_files[e] && from->n_files[e] > 0; i++)
            record->files[e][i] =
                cs_media_file_copy(&from->files[e][i % from->n_files[e]], record->arena);
    cs_record_free(from);
}

static enum cs_status load_file(struct cs_source *s, const struct cs_sample_media *m,
                                uint8_t **data, int32_t *n_saturated, struct cs_err *err)
{
    const size_t n = cs_reader_bytes(&m->layout);
    bool is_saturated = false;

    *data = malloc(n + 1);
    if (*data == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a picture of %zu bytes", n);
    CS_TRY(
        cs_reader_load(&s->reader[m->encoder], s->set, &s->caches, m, *data, &is_saturated, err));
    *n_saturated += is_saturated;
    return CS_OK;
}

static enum cs_status load_media(struct cs_source *s, struct cs_loaded *out, struct cs_err *err)
{
    out->data = calloc((size_t)out->sample.n_media + 1, sizeof *out->data);
    if (out->data == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d pictures", out->sample.n_media);
    for (int i = 0; i < out->sample.n_media; i++)
        CS_TRY(load_file(s, &out->sample.media[i], &out->data[i], &out->n_saturated, err));
    return CS_OK;
}

static void free_content(struct cs_loaded *loaded)
{
    for (int i = 0; loaded->data != NULL && i < loaded->sample.n_media; i++)
        free(loaded->data[i]);
    free(loaded->data);
    cs_sample_free(&loaded->sample);
    cs_rendering_free(&loaded->rendering);
    loaded->data = NULL;
}

static enum cs_status load(struct cs_source *s, uint64_t index, bool has_media,
                           struct cs_findings *findings, struct cs_loaded *out, struct cs_err *err)
{
    enum cs_status status = CS_OK;

    *out = (struct cs_loaded){0};
    CS_TRY(cs_dataset_read(s->set, index, findings, &out->record, err));
    if (s->is_shuffled)
        swap_files(s, out->record);
    status = cs_sample_make(&s->rules, out->record, &out->rendering, &out->sample, err);
    if (status == CS_OK && has_media)
        status = load_media(s, out, err);
    if (status != CS_OK) {
        const struct cs_sample kept = {.fault = out->sample.fault,
                                       .rows_wanted = out->sample.rows_wanted};
        free_content(out);
        out->sample = kept;
    }
    return status;
}

enum cs_status cs_source_load(struct cs_source *s, uint64_t index, struct cs_findings *findings,
                              struct cs_loaded *out, struct cs_err *err)
{
    return load(s, index, true, findings, out, err);
}

enum cs_status cs_source_load_text(struct cs_source *s, uint64_t index,
                                   struct cs_findings *findings, struct cs_loaded *out,
                                   struct cs_err *err)
{
    return load(s, index, false, findings, out, err);
}

int64_t cs_loaded_bytes(const struct cs_loaded *loaded)
{
    enum { ARENA = 4096 };
    const struct cs_sample *s = &loaded->sample;
    int64_t bytes = (int64_t)loaded->rendering.text.cap + ARENA +
                    (int64_t)(loaded->rendering.cap * sizeof *loaded->rendering.segments) +
                    (int64_t)s->n_tokens * 4 * (int64_t)sizeof *s->ids;

    for (int i = 0; i < s->n_media; i++)
        bytes += (int64_t)cs_reader_bytes(&s->media[i].layout);
    return bytes;
}

void cs_loaded_free(struct cs_loaded *loaded)
{
    free_content(loaded);
    cs_record_free(loaded->record);
    loaded->record = NULL;
}
