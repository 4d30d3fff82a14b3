/* Unigram: the way through a piece whose tokens have the largest sum of scores (Viterbi), the first
 * of equal ones. SentencePiece sums in single precision, Hugging Face's `tokenizers` in double. */
#include "input/tok/tok.h"

/* The best way that ends at a byte. */
struct node {
    double score;
    int32_t id;     /* of its last token; the unknown one: tok->unk */
    uint32_t begin; /* where that begins; TOK_NONE: no way ends here */
};

static void offer(const struct cs_tokenizer *tok, struct node *node, double score, int32_t id,
                  uint32_t begin)
{
    if (node->begin != TOK_NONE && !(score > node->score))
        return;
    *node = (struct node){tok->is_single_precision ? (double)(float)score : score, id, begin};
}

/* Whether a piece may be used. */
static bool is_usable(const struct tok_run *run, int32_t id)
{
    return !(run->is_special_off && run->tok->entries[id].is_special);
}

static void extend(const struct tok_run *run, const struct tok_view *view, struct node *nodes,
                   uint32_t at, uint32_t char_len)
{
    const struct cs_tokenizer *tok = run->tok;
    const double before = nodes[at].score;
    bool has_single = false;

    for (uint32_t node = 0, i = at; i < view->n; i++) {
        node = tok_trie_next(&tok->pieces, node, (unsigned char)view->bytes[i]);
        if (node == 0)
            break;
        const int32_t id = tok->pieces.values[node];
        if (id == -1 || !is_usable(run, id))
            continue;
        const uint32_t n = i + 1 - at;
        /* user-defined symbols get so much that they are always chosen */
        const double score = tok->entries[id].is_kept
                                 ? (double)((float)n * (float)tok->kept_score) - 0.1
                                 : tok->scores[id];
        offer(tok, &nodes[i + 1], score + before, id, at);
        has_single |= n == char_len;
    }
    if (!has_single) {
        const double score = tok->unk_score + before;
        offer(tok, &nodes[at + char_len], tok->is_single_precision ? (double)(float)score : score,
              tok->unk, at);
    }
}

/* The way back from the end is turned round: a node then has the id and the end of the token that
 * begins at it. */
static void turn(struct node *nodes, uint32_t n)
{
    uint32_t following_end = TOK_NONE;
    int32_t following_id = -1;

    for (uint32_t end = n;;) {
        const struct node node = nodes[end];
        nodes[end].begin = following_end;
        nodes[end].id = following_id;
        following_end = end;
        following_id = node.id;
        if (end == 0)
            return;
        end = node.begin;
    }
}

/* Neighbours that are unknown are one. */
static enum cs_status emit_all(struct tok_run *run, const struct tok_view *view,
                               const struct node *nodes)
{
    for (uint32_t at = 0, end = 0; at < view->n; at = end) {
        end = nodes[at].begin;
        if (nodes[at].id != run->tok->unk) {
            CS_TRY(tok_emit(run, view, nodes[at].id, at, end));
            continue;
        }
        while (end < view->n && nodes[end].id == run->tok->unk)
            end = nodes[end].begin;
        CS_TRY(tok_emit_unknown(run, view, at, end));
    }
    return CS_OK;
}

enum cs_status tok_unigram(struct tok_run *run, const struct tok_view *view)
{
    struct node *nodes = NULL;

    CS_TRY(tok_reserve(run, ((size_t)view->n + 1) * sizeof *nodes, view));
    nodes = run->model_memory;
    for (uint32_t i = 0; i <= view->n; i++)
        nodes[i] = (struct node){0, -1, TOK_NONE};
    nodes[0].begin = 0;
    for (uint32_t at = 0, len = 0; at < view->n; at += len) {
        len = tok_char_at(run->tok, view, at);
        extend(run, view, nodes, at, len);
    }
    turn(nodes, view->n);
    return emit_all(run, view, nodes);
}
