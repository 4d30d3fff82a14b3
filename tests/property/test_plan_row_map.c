/* Boundaries between layouts that differ: whatever parts and sharers there are on both sides, rows arrive where
 * they belong, both ends of every pair of ranks exchange the same pieces in the same order, and gradients go
 * back by the adjoint: <T x, y> = <x, T' y> in fp64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/plan.h"
#include "core/plan/tokens/row_map.h"
#include "support/random_plan.h"

enum { ROUNDS = 600, MOST_PARTS = 12, MOST_TP = 4, MOST_ROWS = 300, WIDTH = 3 };

/* A random boundary: parts with ragged rows, some without any. */
struct boundary {
    int n_from, n_to, tp_from, tp_to, n;
    bool is_same; /* both ends are on the same ranks */
    /* who receives is sent its share of the rows of its part; what these put together is then all of it, once */
    bool is_cut[CS_FLOWS];
    int32_t begin[MOST_PARTS + 1], to[MOST_ROWS];
    struct cs_row_interval interval[MOST_ROWS];
    int32_t from_rows[MOST_PARTS], to_rows[MOST_PARTS];
    struct cs_row_map map;
};

/* Rows on every rank of one side. */
struct side {
    double rows[MOST_PARTS * MOST_TP][MOST_ROWS * WIDTH];
    bool has[MOST_PARTS * MOST_TP][MOST_ROWS];
};

/* what one rank has sent another, in order */
struct way {
    double rows[MOST_ROWS * WIDTH];
    int piece[MOST_ROWS]; /* rows of each piece */
    int n_rows, n_pieces, taken_rows, taken_pieces;
};

static struct way ways[MOST_PARTS * MOST_TP][MOST_PARTS * MOST_TP];

static int between(uint64_t *seed, int low, int high)
{
    return low + cs_test_random(seed, high - low + 1);
}

static double number(uint64_t *seed)
{
    return (double)between(seed, -1000, 1000) / 64;
}

static void make_sides(struct boundary *b, uint64_t *seed)
{
    b->n_from = between(seed, 1, MOST_PARTS);
    b->n_to = between(seed, 1, MOST_PARTS);
    b->tp_from = between(seed, 1, MOST_TP);
    b->tp_to = between(seed, 1, MOST_TP);
    for (int k = 0; k < CS_FLOWS; k++)
        b->is_cut[k] = between(seed, 0, 2) > 0;
    b->is_same = between(seed, 0, 3) == 0;
    if (!b->is_same)
        return;
    /* as encoders are on ranks of the language model: parts of as many ranks, or of one each */
    b->n_to = between(seed, 1, MOST_PARTS / MOST_TP);
    b->tp_from = between(seed, 0, 1) == 0 ? b->tp_to : 1;
    b->n_from = b->n_to * b->tp_to / b->tp_from;
    b->is_cut[CS_FLOW_ROWS] = false;
    b->is_cut[CS_FLOW_GRADIENTS] = b->tp_from == 1 && between(seed, 0, 1) == 0;
}

static void make(struct boundary *b, uint64_t *seed)
{
    make_sides(b, seed);
    b->n = between(seed, 0, 3) == 0 ? 0 : between(seed, 1, MOST_ROWS);
    int32_t at = 0;
    for (int p = 0; p < b->n_from; p++) {
        b->begin[p] = at;
        at += between(seed, 0, 2) == 0 ? 0 : between(seed, 0, b->n - at);
    }
    b->begin[b->n_from] = b->n;
    const int run = between(seed, 1, 40);
    for (int i = 0, to = 0; i < b->n; i++) {
        if (between(seed, 0, run) == 0)
            to = between(seed, 0, b->n_to - 1);
        b->to[i] = to;
    }
    cs_row_map_make(b->begin, b->n_from, b->to, b->n_to, b->interval, b->from_rows, b->to_rows,
                    &b->map);
}

static enum cs_edge_flow flow_of(bool is_maker, bool is_send)
{
    return is_maker == is_send ? CS_FLOW_ROWS : CS_FLOW_GRADIENTS;
}

static struct cs_row_end end_of(const struct boundary *b, bool is_maker, bool is_send, int rank)
{
    const int here = is_maker ? b->tp_from : b->tp_to, there = is_maker ? b->tp_to : b->tp_from;
    return (struct cs_row_end){.is_maker = is_maker,
                               .is_send = is_send,
                               .part = rank / here,
                               .sharer = rank % here,
                               .here = here,
                               .there = there,
                               .is_cut = b->is_cut[flow_of(is_maker, is_send)],
                               .is_same = b->is_same};
}

static int pieces_of(const struct boundary *b, const struct cs_row_end *end,
                     struct cs_row_piece **out)
{
    const int32_t n = cs_row_map_pieces(&b->map, end, NULL);
    *out = calloc((size_t)n + 1, sizeof **out);
    assert_int_equal(cs_row_map_pieces(&b->map, end, *out), n);
    return n;
}

static void send_all(const struct boundary *b, bool is_maker, const struct side *side)
{
    const int n_ranks = is_maker ? b->n_from * b->tp_from : b->n_to * b->tp_to;
    for (int r = 0; r < n_ranks; r++) {
        const struct cs_row_end end = end_of(b, is_maker, true, r);
        struct cs_row_piece *piece;
        const int n = pieces_of(b, &end, &piece);
        for (int i = 0; i < n; i++) {
            struct way *w = &ways[r][piece[i].part * end.there + piece[i].sharer];
            memcpy(w->rows + (size_t)w->n_rows * WIDTH,
                   side->rows[r] + (size_t)piece[i].row * WIDTH,
                   (size_t)piece[i].n * WIDTH * sizeof(double));
            w->n_rows += piece[i].n;
            w->piece[w->n_pieces++] = piece[i].n;
        }
        free(piece);
    }
}

static void put(struct side *side, int rank, int row, const double *rows, int n)
{
    memcpy(side->rows[rank] + (size_t)row * WIDTH, rows, (size_t)n * WIDTH * sizeof(double));
    for (int k = 0; k < n; k++) {
        assert_false(side->has[rank][row + k]);
        side->has[rank][row + k] = true;
    }
}

/* What a rank of both ends has. */
static void take_own(const struct boundary *b, bool is_maker, const struct cs_row_end *end,
                     int rank, const struct side *from, struct side *side)
{
    for (int i = 0; i < b->map.n; i++) {
        const struct cs_row_interval *r = &b->interval[i];
        if ((is_maker ? r->from : r->to) != end->part || !cs_row_map_is_own(end, r, rank))
            continue;
        const int there = is_maker ? r->to_row : r->from_row;
        put(side, rank, is_maker ? r->from_row : r->to_row,
            from->rows[rank] + (size_t)there * WIDTH, r->n);
    }
}

/* Ranks that receive have their shares, no more, and put them together. */
static void put_together(const struct boundary *b, bool is_maker, struct side *side)
{
    const int tp = is_maker ? b->tp_from : b->tp_to, n = is_maker ? b->n_from : b->n_to;
    for (int p = 0; p < n; p++)
        for (int k = 0; k < tp; k++) {
            const int rows = is_maker ? b->from_rows[p] : b->to_rows[p], rank = p * tp + k;
            for (int i = 0; i < rows; i++)
                assert_int_equal(side->has[rank][i], i >= rows * k / tp && i < rows * (k + 1) / tp);
        }
    for (int p = 0; p < n; p++)
        for (int k = 0; k < tp * tp; k++) {
            const int rows = is_maker ? b->from_rows[p] : b->to_rows[p], from = k / tp;
            if (from != k % tp)
                put(side, p * tp + k % tp, rows * from / tp,
                    side->rows[p * tp + from] + (size_t)(rows * from / tp * WIDTH),
                    rows * (from + 1) / tp - rows * from / tp);
        }
}

/* from: what those who sent had */
static void receive_all(const struct boundary *b, bool is_maker, const struct side *from,
                        struct side *side)
{
    const int n_ranks = is_maker ? b->n_from * b->tp_from : b->n_to * b->tp_to;
    for (int r = 0; r < n_ranks; r++) {
        const struct cs_row_end end = end_of(b, is_maker, false, r);
        struct cs_row_piece *piece;
        const int n = pieces_of(b, &end, &piece);
        take_own(b, is_maker, &end, r, from, side);
        for (int i = 0; i < n; i++) {
            struct way *w = &ways[piece[i].part * end.there + piece[i].sharer][r];
            assert_true(w->taken_pieces < w->n_pieces);
            assert_int_equal(w->piece[w->taken_pieces++], piece[i].n);
            put(side, r, piece[i].row, w->rows + (size_t)w->taken_rows * WIDTH, piece[i].n);
            w->taken_rows += piece[i].n;
        }
        free(piece);
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(ways); i++)
        for (size_t k = 0; k < CS_ARRAY_LEN(ways[i]); k++)
            assert_int_equal(ways[i][k].n_pieces, ways[i][k].taken_pieces);
    if (b->is_cut[flow_of(is_maker, false)])
        put_together(b, is_maker, side);
}

/* Rows of one side, the same on all sharers of a part. */
static void fill(struct side *side, int n_parts, int tp, const int32_t *rows, uint64_t *seed)
{
    memset(side, 0, sizeof *side);
    for (int p = 0; p < n_parts; p++)
        for (int i = 0; i < rows[p] * WIDTH; i++) {
            const double x = number(seed);
            for (int k = 0; k < tp; k++)
                side->rows[p * tp + k][i] = x;
        }
}

/* Parts once each: their sharers have the same, all of it. */
static double product(const struct side *a, const struct side *b, int n_parts, int tp,
                      const int32_t *rows)
{
    double sum = 0;
    for (int p = 0; p < n_parts; p++)
        for (int k = 0; k < tp; k++) {
            assert_memory_equal(a->rows[p * tp], a->rows[p * tp + k], sizeof a->rows[0]);
            for (int i = 0; i < rows[p]; i++)
                assert_true(a->has[p * tp + k][i]);
        }
    for (int p = 0; p < n_parts; p++)
        for (int i = 0; i < rows[p] * WIDTH; i++)
            sum += a->rows[p * tp][i] * b->rows[p * tp][i];
    return sum;
}

static void gradients_go_back_by_the_adjoint(void **state)
{
    static struct boundary b;
    static struct side x, y, tx, ty;
    int n_same = 0, n_cut = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t seed = (uint64_t)round + 1;
        make(&b, &seed);
        n_same += b.is_same;
        n_cut += b.is_cut[CS_FLOW_ROWS] && b.is_cut[CS_FLOW_GRADIENTS];
        fill(&x, b.n_from, b.tp_from, b.from_rows, &seed);
        fill(&y, b.n_to, b.tp_to, b.to_rows, &seed);
        memset(&tx, 0, sizeof tx);
        memset(&ty, 0, sizeof ty);
        memset(ways, 0, sizeof ways);
        send_all(&b, true, &x);
        receive_all(&b, false, &x, &tx);
        memset(ways, 0, sizeof ways);
        send_all(&b, false, &y);
        receive_all(&b, true, &y, &ty);
        const double forward = product(&tx, &y, b.n_to, b.tp_to, b.to_rows);
        const double back = product(&ty, &x, b.n_from, b.tp_from, b.from_rows);
        if (!(fabs(forward - back) <= 1e-12 * (1 + fabs(forward))))
            fail_msg("round %d: %.17g and %.17g", round, forward, back);
    }
    assert_true(n_same > ROUNDS / 8 && n_cut > ROUNDS / 8);
}

/* Row i of all is where the map says, rows of a part in the order of all. */
static void rows_arrive_in_their_order(void **state)
{
    static struct boundary b;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t seed = (uint64_t)round + 1000;
        int32_t n = 0, came[MOST_PARTS] = {0};
        make(&b, &seed);
        for (int i = 0; i < b.map.n; i++) {
            const struct cs_row_interval *r = &b.interval[i];
            assert_true(r->n > 0);
            assert_int_equal(b.begin[r->from] + r->from_row, n);
            assert_int_equal(r->to_row, came[r->to]);
            for (int k = 0; k < r->n; k++)
                assert_int_equal(b.to[n + k], r->to);
            came[r->to] += r->n;
            n += r->n;
        }
        assert_int_equal(n, b.n);
        assert_memory_equal(came, b.to_rows, (size_t)b.n_to * sizeof *came);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_go_back_by_the_adjoint),
        cmocka_unit_test(rows_arrive_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
