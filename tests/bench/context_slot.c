/* Makes a slot by hand: no tokens are embedded, only where they stand and what they see matters. */
#include "bench/context_slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/vlm.h"
#include "worker/slot/tokens.h"

enum { PICTURE = 729, LONGEST_TEXT = 512, SHORTEST_TEXT = 32 };

static int32_t *ints(int32_t n)
{
    int32_t *p = calloc((size_t)n + 2, sizeof *p);
    CS_ASSERT(p != NULL);
    return p;
}

/* ---- how text and pictures lie ---- */

/* rows [*n, end) of a span; item -1: text */
static void add_span(struct cs_context_slot *s, int32_t *n, int32_t end, int32_t doc, int32_t item)
{
    for (; *n < end; ++*n) {
        const int32_t i = *n;
        s->doc[i] = doc;
        s->pos[i] = i > 0 && s->doc[i - 1] == doc ? s->pos[i - 1] + 1 : 0;
        s->item[i] = item;
    }
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static void lay_packed(struct cs_context_slot *s, int32_t tokens)
{
    uint32_t x = 12345;
    for (int32_t n = 0, doc = 0, item = 0, border = tokens / 3; n < tokens; item++) {
        x = x * 1664525u + 1013904223u;
        const int32_t text = SHORTEST_TEXT + (int32_t)((x >> 8) % (LONGEST_TEXT - SHORTEST_TEXT));
        add_span(s, &n, least(tokens, n + text), doc, -1);
        add_span(s, &n, least(tokens, n + PICTURE), doc, item);
        if (n >= border) {
            doc++;
            border += tokens / 3;
        }
    }
}

static void lay_out(struct cs_context_slot *s, const char *layout, int32_t tokens)
{
    int32_t n = 0;
    if (strcmp(layout, "packed") == 0) {
        lay_packed(s, tokens);
        return;
    }
    const bool is_video = strcmp(layout, "video") == 0;
    add_span(s, &n, is_video ? tokens / 8 : tokens, 0, -1);
    add_span(s, &n, least(tokens, tokens / 8 + tokens / 2), 0, 0);
    add_span(s, &n, tokens, 0, -1);
}

/* every row sees those before it in its document, itself, and the rest of its item */
static int64_t count_pairs(const struct cs_context_slot *s, int32_t tokens)
{
    int64_t pairs = 0;
    for (int32_t end = tokens, i = tokens - 1; i >= 0; i--) {
        if (i == tokens - 1 || s->item[i] != s->item[i + 1] || s->doc[i] != s->doc[i + 1])
            end = i + 1;
        pairs += s->pos[i] + 1 + (s->item[i] >= 0 ? end - 1 - i : 0);
    }
    return pairs;
}

/* ---- the slot ---- */

static struct cs_test_planned make_plan(const struct cs_context_lab *lab)
{
    char keys[256];
    snprintf(keys, sizeof keys,
             "{\"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": %d, "
             "\"max_position_embeddings\": %d}",
             lab->heads, lab->kv_heads, lab->dim, lab->tokens);
    const struct cs_test_spec options = {.n_encoders = -1,
                                         .llm_layers = 1,
                                         .llm_width = lab->heads * lab->dim,
                                         .llm_keys = keys,
                                         .mask = "image_bidir",
                                         .llm_cp = lab->ranks,
                                         .context = lab->rule,
                                         .seq_tokens = lab->tokens,
                                         .slots = 1};
    return cs_test_plan(&options);
}

static void find_layer(struct cs_context_slot *s)
{
    const struct cs_graph *graph = s->made.graph;
    const struct cs_branch *llm = &graph->branches[graph->llm];
    const struct cs_layer *layer = &graph->layers[llm->first_layer];
    while (layer->kind != CS_LAYER_BLOCK)
        layer++;
    s->layer = (struct cs_layer_model){.layer = layer,
                                       .arch = cs_layer_arch(graph, layer),
                                       .attention = cs_layer_attention(graph, layer),
                                       .attention_id = cs_layer_attention_id(graph, layer),
                                       .encoder = -1};
}

void cs_context_slot_open(struct cs_context_slot *s, const struct cs_context_lab *lab,
                          struct cs_device *device, int rank)
{
    const int32_t n = lab->tokens;
    struct cs_err err = {0};
    *s = (struct cs_context_slot){.made = make_plan(lab),
                                  .doc = ints(n),
                                  .pos = ints(n),
                                  .item = ints(n),
                                  .segment = ints(n),
                                  .ids = ints(n)};
    find_layer(s);
    lay_out(s, lab->layout, n);
    s->pairs = count_pairs(s, n);
    cs_vlm_must(cs_input_tables_new(s->made.graph, device, &s->made.plan->budget, &s->tables, &err),
                &err);
    const struct cs_split_config config = {.ranks = lab->ranks,
                                           .place = rank,
                                           .how = lab->rule,
                                           .moves_heads = lab->moves_heads,
                                           .own_first = lab->own_first};
    cs_vlm_must(cs_split_tables(s->tables, &config, &err), &err);
    struct cs_input *in = &s->input;
    in->tables = s->tables;
    in->needs = CS_INPUT_TOKENS;
    in->n_tokens = n;
    in->slot.doc = s->doc;
    in->slot.pos = s->pos;
    in->embed_ids = s->ids;
    const struct cs_mask_plan rows = {.n_tokens = n,
                                      .doc = s->doc,
                                      .pos = s->pos,
                                      .item = s->item,
                                      .n_segments = cs_mask_segments(s->doc, n, s->segment),
                                      .segment = s->segment};
    cs_input_set_masks(in, &rows);
    if (lab->ranks > 1)
        cs_vlm_must(cs_input_split(in, NULL, 0, &err), &err);
    cs_vlm_must(cs_input_make_room(in, &err), &err);
    cs_input_place(in);
    cs_vlm_must(cs_device_sync(device, &err), &err);
}

void cs_context_slot_close(struct cs_context_slot *s)
{
    cs_input_free(&s->input);
    cs_input_tables_free(s->tables);
    cs_test_planned_free(&s->made);
    free(s->doc);
    free(s->pos);
    free(s->item);
    free(s->segment);
    free(s->ids);
}
