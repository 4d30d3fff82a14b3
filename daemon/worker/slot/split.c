/* Makes the map of a slot and reduces what was prepared to the rows of this rank. */
#include "worker/slot/split.h"

#include <string.h>

#include "core/plan/context.h"
#include "worker/slot/row_heads.h"
#include "worker/slot/row_keys.h"
#include "worker/slot/row_runs.h"
#include "worker/slot/stretch.h"
#include "worker/slot/tokens.h"

static int32_t *ints(struct cs_input *in, int64_t n)
{
    return cs_scratch_take(&in->memory, (size_t)n * sizeof(int32_t));
}

/* those of the LLM over all rows of the slot, and FLOPs of a pair under each */
struct slot_masks {
    struct cs_mask_plan mask[CS_SLOT_MASKS];
    double per_pair[CS_SLOT_MASKS];
    int32_t n;
};

/* split: NULL before rows are */
static void list_masks(const struct cs_input *in, const struct cs_input_split *split,
                       struct slot_masks *out)
{
    out->n = 0;
    for (int32_t m = 0; m < in->tables->n_masks; m++) {
        if (in->tables->mask[m].encoder >= 0)
            continue;
        out->mask[out->n] = split != NULL ? split->all : in->mask[m];
        out->mask[out->n].rule = in->mask[m].rule;
        out->per_pair[out->n++] = in->tables->context.per_pair[m];
    }
}

static struct cs_context_degrees degrees_of(const struct cs_input_context *c)
{
    return (struct cs_context_degrees){.ranks = c->ranks, .rows_each = c->rows_each, .can = c->can};
}

/* the ranks that split this slot of the step */
static struct cs_context_group group_of(struct cs_input *in, const struct cs_manifest *manifest,
                                        int index)
{
    const struct cs_input_context *c = &in->tables->context;
    struct cs_context_rule rule = {degrees_of(c), c->per_row + c->per_stretch_row, 0};
    if (c->rows_each == 0)
        return (struct cs_context_group){0, c->ranks};
    for (int32_t m = 0; m < in->tables->n_masks; m++)
        rule.per_pair += c->per_pair[m];
    const int32_t n = manifest->n_slots;
    struct cs_arena *arena = cs_arena_new(0); /* not of the slot: every slot looks at all */
    struct cs_context_group *group = CS_NEW_ARRAY(arena, struct cs_context_group, n);
    double *busy = CS_NEW_ARRAY(arena, double, c->ranks);
    int32_t *n_rows = CS_NEW_ARRAY(arena, int32_t, n);
    for (int32_t i = 0; i < n; i++)
        n_rows[i] = manifest->slot[i].n_tokens;
    cs_context_groups(&rule, n_rows, n, group, busy);
    const struct cs_context_group own = group[index];
    cs_arena_free(arena);
    return own;
}

static enum cs_status make_owners(struct cs_input *in, int index,
                                  const struct cs_context_group *group, int32_t *owner,
                                  struct cs_context_load *load, struct cs_err *err)
{
    const struct cs_input_context *c = &in->tables->context;
    struct slot_masks masks;
    list_masks(in, NULL, &masks);
    const struct cs_context_cost cost = {c->per_row, masks.per_pair, c->moves_heads};
    memset(load, 0, (size_t)c->ranks * sizeof *load);
    load += group->first;
    const enum cs_status status =
        cs_context_map(masks.mask, masks.n, &cost, c->how, group->n, owner, load, err);
    for (int32_t i = 0; status == CS_OK && i < in->n_tokens; i++)
        owner[i] += group->first;
    for (int32_t r = 0; r < group->n; r++) /* rows in order are dealt out evenly */
        load[r].work += c->per_stretch_row * in->n_tokens / group->n;
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "slot %d: rows to ranks", index);
}

/* n values of `size` bytes, those of the own rows */
static void *pick(struct cs_input *in, const void *from, size_t size)
{
    const struct cs_input_split *s = in->split;
    if (from == NULL)
        return NULL;
    char *out = cs_scratch_take(&in->memory, (size_t)s->n * size);
    for (int32_t i = 0; i < s->n; i++)
        memcpy(out + (size_t)i * size, (const char *)from + (size_t)s->row[i] * size, size);
    return out;
}

/* Queries are the own rows; keys come once these are padded (row_keys.h). */
static void split_masks(struct cs_input *in)
{
    static const int32_t no_segment = 0;
    const struct cs_mask_plan *keys = &in->split->all;
    const struct cs_mask_plan own = {
        .n_tokens = in->split->n,
        .doc = pick(in, keys->doc, sizeof *keys->doc),
        .pos = pick(in, keys->pos, sizeof *keys->pos),
        .item = pick(in, keys->item, sizeof *keys->item),
        .word = pick(in, keys->word, sizeof *keys->word),
        .segment = &no_segment,
    };
    cs_input_set_masks(in, &own);
}

/* where the rows of the slot are among the own ones, -1: elsewhere */
static int32_t *places(struct cs_input *in)
{
    const struct cs_input_split *s = in->split;
    int32_t *at = ints(in, in->n_tokens);
    for (int32_t i = 0; i < in->n_tokens; i++)
        at[i] = -1;
    for (int32_t i = 0; i < s->n; i++)
        at[s->row[i]] = i;
    return at;
}

static void split_fills(struct cs_input *in, const int32_t *at)
{
    for (int32_t e = 0; e < in->tables->budget->n_encoders; e++) {
        int32_t *fill = ints(in, in->n_fills[e]), *item = ints(in, in->n_fills[e]), n = 0;
        for (int32_t i = 0; i < in->n_fills[e]; i++) {
            if (at[in->fill[e][i]] < 0)
                continue;
            fill[n] = at[in->fill[e][i]];
            item[n++] = in->item_of[e][i];
        }
        in->fill[e] = fill;
        in->item_of[e] = item;
        in->n_fills[e] = n;
    }
}

static void split_labels(struct cs_input *in, const int32_t *at)
{
    struct cs_input_split *s = in->split;
    int32_t *rows = ints(in, in->n_labels), *ids = ints(in, in->n_labels), n = 0;
    s->n_labels = in->n_labels;
    s->label_rows = in->label_rows;
    if ((in->needs & CS_INPUT_CORRECT) && s->place == 0)
        s->correct = cs_scratch_take(&in->memory, (size_t)in->n_labels);
    for (int32_t i = 0; i < in->n_labels; i++) {
        if (at[in->label_rows[i]] < 0)
            continue;
        rows[n] = at[in->label_rows[i]];
        ids[n++] = in->label_ids[i];
    }
    in->label_rows = rows;
    in->label_ids = ids;
    in->n_labels = n;
}

static void take_split(struct cs_input *in, const struct cs_context_group *group,
                       const int32_t *owner, struct cs_context_load *load)
{
    struct cs_input_split *s = in->split = cs_scratch_take(&in->memory, sizeof *s);
    *s = (struct cs_input_split){
        .ranks = in->tables->context.ranks,
        .place = (in->needs & CS_INPUT_BESIDE) != 0 ? -1 : in->tables->context.place,
        .group = *group,
        .owner = owner,
        .load = load};
    for (int32_t m = 0; m < in->tables->n_masks; m++)
        if (in->tables->mask[m].encoder < 0)
            s->all = in->mask[m]; /* they differ in their rule only */
    s->tokens = cs_row_runs_make(in, owner, NULL, in->n_tokens);
    if (s->place < 0)
        return;
    if (!in->tables->context.moves_heads)
        cs_row_needs_make(in, owner);
    cs_stretch_make(in);
    int32_t *row = ints(in, s->tokens.rows[s->place]);
    for (int32_t i = 0; i < in->n_tokens; i++)
        if (owner[i] == s->place)
            row[s->n++] = i;
    s->row = row;
    const int32_t *at = places(in);
    in->embed_ids = pick(in, in->embed_ids, sizeof *in->embed_ids);
    if (!in->tables->context.moves_heads || !cs_split_has_part(s))
        split_masks(in);
    split_fills(in, at);
    if (in->needs & CS_INPUT_LABELS)
        split_labels(in, at);
}

enum cs_status cs_input_split(struct cs_input *input, const struct cs_manifest *manifest, int index,
                              struct cs_err *err)
{
    const struct cs_context_group group = group_of(input, manifest, index);
    int32_t *owner = ints(input, input->n_tokens);
    struct cs_context_load *load =
        cs_scratch_take(&input->memory, (size_t)input->tables->context.ranks * sizeof *load);
    CS_TRY(make_owners(input, index, &group, owner, load, err));
    take_split(input, &group, owner, load);
    CS_ASSERT(input->split->n <= input->tables->context.most);
    return CS_OK;
}

/* All other rows of the slot come, and as many as there may be added to the own ones on a device; all
 * own ones go to everybody. */
static void need_most(struct cs_input *in)
{
    const struct cs_input_split *s = in->split;
    const int32_t other = s->place == 0 ? 1 : 0;
    struct cs_row_run *all = cs_scratch_take(&in->memory, sizeof *all),
                      *own = cs_scratch_take(&in->memory, (size_t)s->ranks * sizeof *own);
    int32_t *come_first = ints(in, s->ranks + 1), *come = ints(in, s->ranks),
            *go_first = ints(in, s->ranks + 1), *go = ints(in, s->ranks);
    const int32_t added = s->n < CS_INPUT_ROWS_ADDED ? s->n : CS_INPUT_ROWS_ADDED;
    const int32_t begin = s->n - (cs_row_keys_are_sorted(in) ? 0 : added);
    *all = (struct cs_row_run){begin, in->n_tokens - begin};
    come_first[0] = go_first[0] = 0;
    for (int32_t r = 0; r < s->ranks; r++) {
        own[r] = (struct cs_row_run){0, s->n};
        come_first[r + 1] = r >= other;
        come[r] = r == other ? all->n : 0;
        go[r] = r != s->place ? s->n : 0;
        go_first[r + 1] = go_first[r] + (r != s->place);
    }
    for (int32_t m = 0; m < in->tables->n_masks; m++)
        in->split->need[m] = (struct cs_row_needs){
            .come = {all, come_first, come},
              .go = {own, go_first,   go  }
        };
    cs_row_keys_make(in);
}

/* Its rows are all alike: the first ones stand for those that are here. */
void cs_input_split_fullest(struct cs_input *input)
{
    struct cs_input_split *s = input->split;
    const int32_t most = input->tables->context.most;
    if (s == NULL || s->place < 0)
        return;
    int32_t *row = ints(input, most);
    for (int32_t i = 0; i < most; i++)
        row[i] = i;
    s->n = most;
    s->row = row;
    input->embed_ids = pick(input, input->slot.ids, sizeof *input->slot.ids);
    input->llm_rows = most;
    if (input->tables->context.moves_heads) {
        s->group = (struct cs_context_group){0, s->ranks};
        cs_input_set_masks(input, &s->all);
        cs_row_heads_make(input);
    } else {
        split_masks(input);
        need_most(input);
    }
    cs_stretch_make_fullest(input);
    for (int32_t e = 0; e < input->tables->budget->n_encoders; e++)
        input->n_fills[e] = input->n_fills[e] < most ? input->n_fills[e] : most;
    if ((input->needs & CS_INPUT_LABELS) == 0)
        return;
    input->n_labels = most;
    input->label_rows = row;
    input->label_ids = pick(input, input->slot.labels, sizeof *input->slot.labels);
    if (input->correct != NULL)
        input->correct = cs_scratch_take(&input->memory, (size_t)most);
}

int32_t cs_split_fewer(const struct cs_input_tables *tables, int32_t n)
{
    const struct cs_context_degrees degrees = degrees_of(&tables->context);
    if (!tables->context.moves_heads || tables->context.rows_each == 0)
        return 0;
    do
        n--;
    while (n > 0 && !cs_context_can_split(&degrees, n));
    return n;
}

/* Masks are as of all rows, which takes no less. */
struct cs_input_split cs_split_fullest_of(const struct cs_input *fullest, int32_t n)
{
    const struct cs_input_context *c = &fullest->tables->context;
    struct cs_input_split split = *fullest->split;
    const int32_t seq = split.heads.n, last = split.ranks - n;
    const int64_t longest = (int64_t)n * c->rows_each;
    if (n == split.ranks)
        return split;
    split.group = (struct cs_context_group){split.place < last ? split.place : last, n};
    split.heads.n = longest < seq ? (int32_t)longest : seq;
    split.heads.rows = split.heads.n + CS_INPUT_ROWS_ADDED;
    split.heads.rows = split.heads.rows < seq ? split.heads.rows : seq;
    return split;
}

/* the encoder that fills a row, -1: text; on ranks that share the items of an encoder the slot tells of some alone */
static int8_t *whose_rows(const struct cs_input *input, struct cs_arena *arena)
{
    int8_t *encoder = CS_NEW_ARRAY(arena, int8_t, input->n_tokens);
    memset(encoder, -1, (size_t)input->n_tokens);
    for (int8_t e = 0; e < CS_MAX_ENCODERS; e++)
        for (int32_t i = 0; i < input->whole[e].n; i++)
            encoder[input->whole[e].row[i]] = e;
    return encoder;
}

enum cs_status cs_split_view(const struct cs_input *input, struct cs_arena *arena,
                             struct cs_context_view *out, struct cs_err *err)
{
    const struct cs_input_context *c = &input->tables->context;
    struct slot_masks masks;
    list_masks(input, input->split, &masks);
    const struct cs_context_cost cost = {c->per_row, masks.per_pair, c->moves_heads};
    return cs_context_view_make(masks.mask, masks.n, &cost, c->ranks, whose_rows(input, arena),
                                arena, out, err);
}

int32_t cs_split_rows(const struct cs_input *input)
{
    return input->split != NULL && input->split->place >= 0 ? input->split->n : input->n_tokens;
}

/* heads of keys behind tp, and which numbers of ranks can share these and those of queries */
static enum cs_status share_heads(struct cs_input_tables *tables, struct cs_tp tp,
                                  struct cs_err *err)
{
    struct cs_input_context *c = &tables->context;
    const struct cs_graph *graph = tables->graph;
    const struct cs_branch *llm = &graph->branches[graph->llm];
    for (int32_t i = llm->first_layer; i < llm->first_layer + llm->n_layers; i++) {
        const struct cs_attention *a = cs_layer_attention(graph, &graph->layers[i]);
        struct cs_context_heads own;
        if (a == NULL)
            continue;
        if (!cs_context_heads(a, tp, c->ranks, &own))
            return cs_fail(err, CS_INVALID, "layer %d: %d ranks cannot share its heads", i,
                           c->ranks);
        c->keys[cs_layer_attention_id(graph, &graph->layers[i])] = own.k * c->ranks / own.copies;
    }
    c->can = cs_context_heads_degrees(graph, tp.ranks > 1 ? tp.ranks : 1, c->ranks);
    return CS_OK;
}

enum cs_status cs_split_tables(struct cs_input_tables *tables, const struct cs_split_config *config,
                               struct cs_err *err)
{
    struct cs_input_context *c = &tables->context;
    const struct cs_graph *graph = tables->graph;
    const struct cs_branch *llm = &graph->branches[graph->llm];
    const int32_t ranks = config->ranks, rows_each = config->rows_each;
    *c = (struct cs_input_context){.lanes = c->lanes,
                                   .lane = c->lane,
                                   .ranks = ranks,
                                   .place = config->place,
                                   .how = CS_BALANCE_LPT};
    if (ranks < 2)
        return CS_OK;
    if (config->how != NULL && !cs_balance_how_from_name(config->how, &c->how))
        return cs_fail(err, CS_INVALID, "plan.context: \"%s\" is no rule", config->how);
    c->moves_heads = config->moves_heads;
    c->own_first = config->own_first && !config->moves_heads;
    if (c->moves_heads)
        CS_TRY(share_heads(tables, config->tp, err));
    double per_pair[CS_SLOT_MASKS] = {0};
    c->rows_each = rows_each;
    c->most = cs_context_room(tables->budget->seq_tokens, ranks, rows_each);
    c->most_in_order = cs_context_room_in_order(tables->budget->seq_tokens, ranks, rows_each);
    c->per_row = cs_context_flops(graph, per_pair);
    for (int32_t a = 0; a < graph->n_attentions; a++)
        if (per_pair[a] > 0)
            c->per_pair[tables->kind[a].mask] += per_pair[a];
    for (int32_t i = llm->first_layer; i < llm->first_layer + llm->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        if (!cs_context_is_stretched(layer))
            continue;
        c->taps = cs_layer_arch(graph, layer)->recurrent.taps;
        c->per_stretch_row += (double)cs_layer_fwd_flops(graph, layer, 1, 0, 0);
    }
    return CS_OK;
}

int32_t cs_split_label_row(const struct cs_input *input, int32_t label)
{
    const int32_t row = input->label_rows[label];
    return input->split != NULL ? input->split->row[row] : row;
}

struct cs_split_labels cs_split_labels(const struct cs_input *input)
{
    const struct cs_input_split *s = input->split;
    if (s == NULL)
        return (struct cs_split_labels){input->n_labels, input->label_rows, input->correct};
    return (struct cs_split_labels){s->n_labels, s->label_rows, s->correct};
}

int32_t cs_split_count_labels(const struct cs_input *input, int32_t place)
{
    const struct cs_input_split *s = input->split;
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_labels; i++)
        n += s->owner[s->label_rows[i]] == place;
    return n;
}

void cs_split_take_correct(struct cs_input *input, int32_t place, const uint8_t *correct)
{
    struct cs_input_split *s = input->split;
    for (int32_t i = 0; i < s->n_labels; i++)
        if (s->owner[s->label_rows[i]] == place)
            s->correct[i] = *correct++;
}
