/* How the forward pass of attention on Hopper shares out its work: whatever the lengths of the lists
 * and their order, every entry of every item is worked on once, and the pieces of an item are as many
 * as it says, in shares that follow each other. */
#include "kernels/cuda/attention/hopper/fwd_items.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { CASES = 4000, MAX_Q = 70, MAX_HEADS = 32, MAX_COUNT = 80 };

static uint64_t seed = 5;

static int32_t between(int32_t lo, int32_t hi)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int32_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

/* What was seen of the work of all blocks. */
struct seen {
    uint8_t entry[MAX_Q * MAX_HEADS][MAX_COUNT];
    int32_t pieces[MAX_Q * MAX_HEADS], said[MAX_Q * MAX_HEADS];
};

static struct seen seen;

static void take(const struct cs_fwd_items *a, const struct cs_fwd_work *work)
{
    int32_t tile = 0, head = 0, nth = 0, first = 0;
    assert_true(cs_fwd_item_at(a, work->item, &tile, &head));
    const int32_t id = tile * a->heads + head, pieces = cs_fwd_pieces(a, work, &nth, &first);
    assert_in_range(head, 0, a->heads - 1);
    assert_true(work->first >= 0 && work->end <= a->count[tile]);
    for (int32_t e = work->first; e < work->end; e++)
        seen.entry[id][e]++;
    if (pieces > 1) {
        assert_in_range(nth, 0, a->cut - 1);
        assert_int_equal(work->share, first + seen.pieces[id]);
    }
    seen.said[id] = pieces;
    seen.pieces[id]++;
}

/* All that blocks get when they ask in turn */
static void take_all(const struct cs_fwd_items *a)
{
    const int32_t n = a->n_q * a->heads;
    memset(&seen, 0, sizeof seen);
    for (int32_t number = 0;; number++) {
        struct cs_fwd_work work = cs_fwd_work_of(a, number);
        if (work.item >= n)
            return;
        assert_true(number < n + a->shares);
        take(a, &work);
        if (work.rest > 0) {
            work = cs_fwd_work_behind(work);
            take(a, &work);
        }
    }
}

static void check(const struct cs_fwd_items *a)
{
    take_all(a);
    for (int32_t id = 0; id < a->n_q * a->heads; id++) {
        assert_int_equal(seen.pieces[id], seen.said[id]);
        for (int32_t e = 0; e < a->count[id / a->heads]; e++)
            assert_int_equal(seen.entry[id][e], 1);
    }
}

static void shuffle(int32_t *order, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    for (int32_t i = n - 1; i > 0; i--) {
        const int32_t j = between(0, i), other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
}

enum lengths { EVEN, SOME_OTHER, ANY, ENDS_EQUAL, LENGTHS };

static void every_entry_is_worked_on_once(void **state)
{
    int n_cut = 0;
    (void)state;
    for (int i = 0; i < CASES; i++) {
        int32_t count[MAX_Q], order[MAX_Q];
        const int32_t n_q = between(1, MAX_Q), kv = between(1, 4), group = between(1, 8);
        const int32_t usual = between(0, 60), kind = i % LENGTHS;
        struct cs_fwd_items a = {.n_q = n_q,
                                 .heads = kv * group,
                                 .section = between(1, kv) * group,
                                 .count = count,
                                 .order = order};
        shuffle(order, n_q);
        for (int32_t t = 0; t < n_q; t++)
            count[t] = kind == ANY || (kind == SOME_OTHER && between(0, 8) == 0) ||
                               (kind == ENDS_EQUAL && t != order[0] && t != order[n_q - 1])
                           ? between(0, MAX_COUNT)
                           : usual;
        cs_fwd_cut(n_q * a.heads, i % 5 == 0 ? between(1, 200) : 132, &a.cut, &a.shares);
        n_cut += cs_fwd_cut_length(&a) > 0;
        check(&a);
    }
    assert_true(n_cut > CASES / 20);
}

/* The tiles of two documents, of which the second begins behind row 124 of tile 10: the first and the
 * last in order meet 23 tiles, tile 10 all 33, those before it 11. */
static void ends_that_are_equal_tell_nothing(void **state)
{
    int32_t count[33], order[33], n = 0;
    (void)state;
    for (int32_t t = 0; t < 33; t++)
        count[t] = t < 10 ? 11 : t == 10 ? 33 : 23;
    for (int32_t t = 11; t < 32; t++)
        order[n++] = t;
    order[n++] = 10;
    for (int32_t t = 0; t < 10; t++)
        order[n++] = t;
    order[n++] = 32;
    struct cs_fwd_items a = {.n_q = n, .heads = 2, .section = 2, .count = count, .order = order};
    cs_fwd_cut(n * a.heads, 132, &a.cut, &a.shares);
    assert_int_equal(a.cut, 66);
    assert_int_equal(cs_fwd_cut_length(&a), 0);
    check(&a);
    for (int32_t t = 0; t < n; t++)
        count[t] = 33;
    assert_int_equal(cs_fwd_cut_length(&a), 33);
    check(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_is_worked_on_once),
        cmocka_unit_test(ends_that_are_equal_tell_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
