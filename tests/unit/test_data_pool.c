/* The slot pool between real processes: every reader sees every manifest and slot, memory is never
 * reused early, and a stop wakes everybody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/data/pool.h"

static const struct cs_slot_budget budget = {
    .seq_tokens = 100,
    .n_encoders = 1,
    .enc = {{.rows = 32,
             .items = 2,
             .patches = 32,
             .bytes = 96,
             .item_rows = 16,
             .item_patches = 16,
             .item_bytes = 48,
             .height = 4,
             .width = 4,
             .channels = 3}},
};

struct map {
    void *memory;
    size_t bytes;
};

static struct map new_pool(struct cs_pool_shape shape)
{
    struct map map = {.bytes = cs_pool_bytes(&shape, &budget)};
    int fd = memfd_create("pool", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)map.bytes), 0);
    map.memory = mmap(NULL, map.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map.memory, MAP_FAILED);
    close(fd);
    cs_pool_init(map.memory, &shape, &budget);
    return map;
}

static struct cs_pool *attach(struct map map, int reader)
{
    struct cs_pool *pool = NULL;
    struct cs_err err;
    assert_int_equal(cs_pool_attach(map.memory, map.bytes, &budget, reader, &pool, &err), CS_OK);
    return pool;
}

static void pause_us(unsigned *seed, int max_us)
{
    struct timespec t = {.tv_nsec = (long)(rand_r(seed) % max_us) * 1000};
    nanosleep(&t, NULL);
}

static int slots_of(int step)
{
    return 1 + step * 7 % 4;
}

/* Child: reads `steps` manifests and checks each slot before and after a random delay. Exit code 0:
 * ok. */
static int read_all(struct map map, int reader, int steps)
{
    unsigned seed = 100u + (unsigned)reader;
    struct cs_pool *pool = NULL;
    if (cs_pool_attach(map.memory, map.bytes, &budget, reader, &pool, NULL) != CS_OK)
        return 2;
    for (int step = 0; step < steps; step++) {
        struct cs_manifest m;
        uint64_t waited_ns = 0;
        if (cs_pool_next(pool, &m, &waited_ns, NULL) != CS_OK)
            return 3;
        if (m.step != step || m.n_slots != slots_of(step) || m.trained_tokens != step * 10)
            return 4;
        for (int s = 0; s < m.n_slots; s++) {
            struct cs_slot slot;
            cs_pool_slot(pool, &m, s, &slot);
            for (int look = 0; look < 2; look++) {
                if (slot.head->step != step || slot.head->slot != s)
                    return 5;
                for (int t = 0; t < budget.seq_tokens; t++)
                    if (slot.ids[t] != step * 1000 + s * 100 + t)
                        return 6;
                if (slot.data[0][95] != (uint8_t)(step + s))
                    return 7;
                pause_us(&seed, 300);
            }
            cs_pool_release(pool, &m, s);
            cs_pool_release(pool, &m, s); /* twice does no harm */
        }
    }
    cs_pool_detach(pool);
    return 0;
}

static void write_all(struct cs_pool *pool, int steps)
{
    unsigned seed = 9;
    for (int step = 0; step < steps; step++) {
        struct cs_manifest m = {
            .step = step, .n_slots = slots_of(step), .trained_tokens = step * 10};
        for (int s = 0; s < m.n_slots; s++) {
            struct cs_slot slot;
            uint64_t seq = 0;
            assert_int_equal(cs_pool_take(pool, &slot, &seq, NULL), CS_OK);
            if (s == 0)
                m.first_slot = seq;
            assert_int_equal(seq, m.first_slot + (uint64_t)s);
            slot.head->step = step;
            slot.head->slot = s;
            for (int t = 0; t < budget.seq_tokens; t++)
                slot.ids[t] = step * 1000 + s * 100 + t;
            memset(slot.data[0], (uint8_t)(step + s), 96);
        }
        pause_us(&seed, 200);
        assert_int_equal(cs_pool_publish(pool, &m, NULL), CS_OK);
    }
}

static void three_processes_read_everything_one_writes(void **state)
{
    (void)state;

    enum { READERS = 3, STEPS = 200 };
    struct map map =
        new_pool((struct cs_pool_shape){.n_slots = 9, .n_manifests = 4, .n_readers = READERS});
    pid_t pid[READERS];
    for (int r = 0; r < READERS; r++) {
        pid[r] = fork();
        assert_true(pid[r] >= 0);
        if (pid[r] == 0)
            _exit(read_all(map, r, STEPS));
    }
    struct cs_pool *pool = attach(map, -1);
    write_all(pool, STEPS);
    for (int r = 0; r < READERS; r++) {
        int status = -1;
        assert_int_equal(waitpid(pid[r], &status, 0), pid[r]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    cs_pool_detach(pool);
    munmap(map.memory, map.bytes);
}

/* The pool has room for a step of very many slots; steps of few use the memory of few. What manifests say of
 * their slots stays theirs through turns of the ring. */
static void small_steps_touch_the_memory_of_few_slots(void **state)
{
    (void)state;

    enum { STEPS = 60, SLOTS = 3, AHEAD = 2 };
    struct map map =
        new_pool((struct cs_pool_shape){.n_slots = 50, .n_manifests = 4, .n_readers = 1});
    struct cs_pool *feeder = attach(map, -1), *reader = attach(map, 0);
    char *first = NULL, *last = NULL;
    for (int step = 0; step < STEPS + AHEAD; step++) {
        struct cs_slot_counts counts[SLOTS] = {{0}};
        struct cs_manifest m = {.step = step, .n_slots = SLOTS, .slot = counts};
        struct cs_slot slot;
        uint64_t seq;
        for (int s = 0; s < SLOTS && step < STEPS; s++) {
            assert_int_equal(cs_pool_take(feeder, &slot, &seq, NULL), CS_OK);
            m.first_slot = s == 0 ? seq : m.first_slot;
            slot.head->n_tokens = counts[s].n_tokens = step * 10 + s;
            char *at = (char *)slot.head;
            first = first == NULL ? at : first;
            assert_true(at >= first);
            last = last == NULL || at > last ? at : last;
        }
        if (step < STEPS)
            assert_int_equal(cs_pool_publish(feeder, &m, NULL), CS_OK);
        if (step < AHEAD)
            continue;
        assert_int_equal(cs_pool_next(reader, &m, NULL, NULL), CS_OK);
        for (int s = 0; s < SLOTS; s++) {
            cs_pool_slot(reader, &m, s, &slot);
            assert_int_equal(m.slot[s].n_tokens, (step - AHEAD) * 10 + s);
            assert_int_equal(slot.head->n_tokens, m.slot[s].n_tokens);
            cs_pool_release(reader, &m, s);
        }
    }
    struct cs_slot_layout layout;
    cs_slot_layout_make(&budget, &layout);
    assert_int_equal((size_t)(last - first) / layout.bytes, SLOTS * (AHEAD + 1) - 1);
    cs_pool_detach(feeder);
    cs_pool_detach(reader);
    munmap(map.memory, map.bytes);
}

/* child that waits in cs_pool_next (reader) or cs_pool_take (feeder); 0 when it was interrupted */
static int wait_for_stop(struct map map, int reader)
{
    struct cs_pool *pool = NULL;
    struct cs_manifest m;
    struct cs_slot slot;
    uint64_t seq;
    if (cs_pool_attach(map.memory, map.bytes, &budget, reader, &pool, NULL) != CS_OK)
        return 2;
    if (reader >= 0)
        return cs_pool_next(pool, &m, NULL, NULL) == CS_INTERRUPTED ? 0 : 3;
    m = (struct cs_manifest){.n_slots = 1};
    if (cs_pool_take(pool, &slot, &seq, NULL) != CS_OK || cs_pool_publish(pool, &m, NULL) != CS_OK)
        return 4;
    return cs_pool_take(pool, &slot, &seq, NULL) == CS_INTERRUPTED ? 0 : 5;
}

static void stop_wakes_every_waiter(void **state)
{
    (void)state;
    struct map map =
        new_pool((struct cs_pool_shape){.n_slots = 1, .n_manifests = 4, .n_readers = 2});
    struct cs_pool *pool = attach(map, -1);
    struct cs_pool *idle = attach(map, 1); /* never releases: the feeder must wait for a slot */
    pid_t feeder = fork();
    if (feeder == 0)
        _exit(wait_for_stop(map, -1));
    struct cs_manifest m;
    assert_int_equal(cs_pool_next(idle, &m, NULL, NULL), CS_OK);
    pid_t reader = fork();
    if (reader == 0) {
        struct cs_pool *own = NULL;
        if (cs_pool_attach(map.memory, map.bytes, &budget, 0, &own, NULL) != CS_OK ||
            cs_pool_next(own, &m, NULL, NULL) != CS_OK)
            _exit(9);
        _exit(wait_for_stop(map, 0));
    }
    unsigned seed = 3;
    pause_us(&seed, 50000);
    cs_pool_stop(pool);
    int status = -1;
    assert_int_equal(waitpid(feeder, &status, 0), feeder);
    assert_int_equal(status, 0);
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    cs_pool_detach(idle);
    cs_pool_detach(pool);
    munmap(map.memory, map.bytes);
}

static void a_step_larger_than_the_pool_is_refused_not_hung(void **state)
{
    (void)state;
    struct map map =
        new_pool((struct cs_pool_shape){.n_slots = 2, .n_manifests = 4, .n_readers = 1});
    struct cs_pool *pool = attach(map, -1);
    struct cs_slot slot;
    struct cs_err err;
    uint64_t seq;
    assert_int_equal(cs_pool_take(pool, &slot, &seq, &err), CS_OK);
    assert_int_equal(cs_pool_take(pool, &slot, &seq, &err), CS_OK);
    assert_int_equal(cs_pool_take(pool, &slot, &seq, &err), CS_LIMIT);
    cs_pool_detach(pool);
    munmap(map.memory, map.bytes);
}

static void a_manifest_of_slots_not_taken_is_refused(void **state)
{
    (void)state;
    struct map map =
        new_pool((struct cs_pool_shape){.n_slots = 4, .n_manifests = 4, .n_readers = 1});
    struct cs_pool *pool = attach(map, -1);
    struct cs_manifest m = {.step = 3, .n_slots = 1};
    struct cs_err err;
    assert_int_equal(cs_pool_publish(pool, &m, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "step 3"));
    cs_pool_detach(pool);
    munmap(map.memory, map.bytes);
}

static void attach_checks_memory_budget_and_reader(void **state)
{
    (void)state;
    struct map map =
        new_pool((struct cs_pool_shape){.n_slots = 4, .n_manifests = 4, .n_readers = 2});
    struct cs_pool *pool = NULL;
    struct cs_err err;
    struct cs_slot_budget other = budget;
    other.seq_tokens = 5000;
    assert_int_equal(cs_pool_attach(map.memory, map.bytes, &other, 0, &pool, &err), CS_CORRUPT);
    assert_int_equal(cs_pool_attach(map.memory, map.bytes - 1, &budget, 0, &pool, &err),
                     CS_CORRUPT);
    assert_int_equal(cs_pool_attach(map.memory, map.bytes, &budget, 2, &pool, &err), CS_INVALID);
    memset(map.memory, 0, 8);
    assert_int_equal(cs_pool_attach(map.memory, map.bytes, &budget, 0, &pool, &err), CS_CORRUPT);
    munmap(map.memory, map.bytes);
}

static void slot_areas_do_not_overlap(void **state)
{
    (void)state;
    struct cs_slot_layout l;
    cs_slot_layout_make(&budget, &l);
    size_t t = (size_t)budget.seq_tokens * sizeof(int32_t);
    const size_t from[] = {0,
                           l.ids,
                           l.labels,
                           l.doc,
                           l.pos,
                           l.sample_ids,
                           l.sample_rows,
                           l.sample_sources,
                           l.enc[0].items,
                           l.enc[0].data,
                           l.enc[0].rows,
                           l.bytes};
    const size_t size[] = {sizeof(struct cs_slot_head),
                           t,
                           t,
                           t,
                           t,
                           CS_SLOT_MAX_SAMPLES * sizeof(uint64_t),
                           (CS_SLOT_MAX_SAMPLES + 1) * sizeof(int32_t),
                           2 * sizeof(struct cs_item),
                           2 * 48,
                           2 * 16 * sizeof(int32_t)};
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        assert_true(from[i] + size[i] <= from[i + 1]);
        assert_int_equal(from[i] % 64, 0);
    }
    assert_int_equal(l.bytes % 4096, 0);
}

/* 32 rows and 96 bytes for at most 4 items of any shape. */
static void items_of_any_shape_fill_a_slot(void **state)
{
    static const struct cs_item_shape shape[] = {
        {CS_ITEM_IMAGE, {1, 4, 4}, 16, 48, 0},
        {CS_ITEM_IMAGE, {1, 1, 3}, 3,  1,  0},
        {CS_ITEM_IMAGE, {1, 3, 4}, 12, 40, 0},
    };
    struct cs_slot_budget b = budget;
    struct cs_slot_layout layout;
    struct cs_slot slot;
    struct cs_err err;
    int32_t first = -1;
    (void)state;
    b.enc[0].items = 4;
    cs_slot_layout_make(&b, &layout);
    void *memory = calloc(1, layout.bytes);
    assert_non_null(memory);
    cs_slot_view(&layout, &b, memory, &slot);
    for (int i = 0; i < 3; i++)
        assert_non_null(cs_slot_add_item(&slot, &b, 0, &shape[i], &first));
    assert_int_equal(first, 19);
    assert_int_equal(slot.items[0][2].offset, 49);
    assert_int_equal(slot.head->n_rows[0], 31);
    assert_null(cs_slot_add_item(&slot, &b, 0, &shape[1], NULL)); /* 34 rows */
    assert_null(cs_slot_add_item(&slot, &b, 0, &(struct cs_item_shape){.rows = 1, .bytes = 8},
                                 NULL)); /* 97 bytes */
    assert_int_equal(slot.head->n_items[0], 3);
    assert_int_equal(cs_slot_check_items(&slot, &b, 0, &err), CS_OK);

    const struct {
        int32_t *at, bad;
    } rows[] = {
        {&slot.items[0][0].shape.kind,    CS_ITEM_KINDS},
        {&slot.items[0][1].shape.grid[2], 0            },
        {&slot.items[0][1].shape.rows,    0            },
        {&slot.items[0][1].shape.rows,    5            },
        {&slot.items[0][0].shape.rows,    17           },
        {&slot.items[0][2].shape.rows,    11           },
        {&slot.items[0][2].shape.bytes,   48           },
        {&slot.items[0][0].shape.bytes,   -1           },
        {&slot.head->n_items[0],          2            },
        {&slot.head->n_items[0],          5            },
        {&slot.head->n_items[0],          -1           },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const int32_t good = *rows[i].at;
        *rows[i].at = rows[i].bad;
        if (cs_slot_check_items(&slot, &b, 0, &err) != CS_CORRUPT)
            fail_msg("row %zu was not refused", i);
        *rows[i].at = good;
    }
    slot.items[0][1].offset = 47;
    assert_int_equal(cs_slot_check_items(&slot, &b, 0, &err), CS_CORRUPT);
    assert_non_null(strstr(err.text, "at 47, after 16 rows of 32"));
    free(memory);
}

/* LLM rows filled by rows in another order, by a learned row, and by a blend. */
static void sources_say_what_fills_a_row(void **state)
{
    struct cs_slot_budget b = budget;
    struct cs_slot_layout layout;
    struct cs_slot slot;
    struct cs_err err;
    const struct cs_item_shape shape = {
        CS_ITEM_IMAGE, {1, 2, 3},
         6, 18, 0
    };
    (void)state;
    b.enc[0].has_sources = true;
    assert_int_equal(cs_budget_fills(&b, 0), b.seq_tokens);
    cs_slot_layout_make(&b, &layout);
    assert_true(layout.enc[0].source >= layout.enc[0].rows + 100 * sizeof(int32_t));
    assert_true(layout.enc[0].blends >= layout.enc[0].source + 100 * sizeof(int32_t));
    assert_true(layout.bytes >= layout.enc[0].blends + 100 * sizeof(struct cs_slot_blend));
    void *memory = calloc(1, layout.bytes);
    assert_non_null(memory);
    cs_slot_view(&layout, &b, memory, &slot);
    assert_non_null(cs_slot_add_item(&slot, &b, 0, &shape, NULL));
    assert_int_equal(slot.head->n_fills[0], 0);
    const struct cs_slot_blend blend = {
        {0,    5,    9, -1},
        {0.5f, 0.5f, 0, 0 }
    };
    cs_slot_add_fill(&slot, 0, 3, 4);
    cs_slot_add_fill(&slot, 0, 4, CS_SOURCE_LEARNED);
    cs_slot_add_fill(&slot, 0, 7, cs_slot_add_blend(&slot, 0, &blend));
    cs_slot_add_fill(&slot, 0, 8, cs_slot_add_blend(&slot, 0, &blend));
    assert_int_equal(slot.source[0][3], CS_SOURCE_BLENDS - 1);
    assert_int_equal(slot.head->n_fills[0], 4);
    assert_int_equal(cs_slot_check_items(&slot, &b, 0, &err), CS_OK);

    const struct {
        int32_t *at, bad;
    } rows[] = {
        {&slot.source[0][0],        6                   },
        {&slot.source[0][2],        CS_SOURCE_BLENDS - 2},
        {&slot.blends[0][1].row[1], 6                   },
        {&slot.blends[0][0].row[0], -1                  },
        {&slot.head->n_fills[0],    101                 },
        {&slot.head->n_blends[0],   1                   },
        {&slot.head->n_patches[0],  7                   },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const int32_t good = *rows[i].at;
        *rows[i].at = rows[i].bad;
        if (cs_slot_check_items(&slot, &b, 0, &err) != CS_CORRUPT)
            fail_msg("row %zu was not refused", i);
        *rows[i].at = good;
    }
    slot.blends[0][1].weight[0] = NAN;
    assert_int_equal(cs_slot_check_items(&slot, &b, 0, &err), CS_CORRUPT);
    free(memory);
}

/* Patches, not rows, are what an encoder that merges runs out of. */
static void merged_patches_have_a_budget_of_their_own(void **state)
{
    struct cs_slot_budget b = budget;
    struct cs_slot_layout layout;
    struct cs_slot slot;
    struct cs_slot_counts counts = {0};
    struct cs_manifest m = {.n_slots = 1, .slot = &counts};
    struct cs_err err;
    const struct cs_item_shape large = {
        CS_ITEM_IMAGE, {1, 6, 8},
         12, 40, 0
    };
    const struct cs_item_shape loose = {
        CS_ITEM_IMAGE, {1, 5, 8},
         8, 40, 0
    };
    (void)state;
    b.enc[0] = (struct cs_item_budget){.items = 9,
                                       .rows = 20,
                                       .patches = 80,
                                       .bytes = 200,
                                       .item_rows = 16,
                                       .item_patches = 64,
                                       .item_bytes = 160};
    cs_slot_layout_make(&b, &layout);
    void *memory = calloc(1, layout.bytes);
    assert_non_null(memory);
    cs_slot_view(&layout, &b, memory, &slot);
    assert_non_null(cs_slot_add_item(&slot, &b, 0, &large, NULL));
    assert_null(cs_slot_add_item(&slot, &b, 0, &loose, NULL)); /* 20 rows, but 88 patches */
    assert_int_equal(slot.head->n_patches[0], 48);
    cs_manifest_note(&m, 0, &slot);
    assert_int_equal(counts.n_patches[0], 48);
    assert_int_equal(counts.n_fills[0], 12);
    memset(slot.head, 0, sizeof *slot.head);
    cs_slot_fill_items(&slot, &b, 0);
    assert_int_equal(slot.head->n_items[0], 2);
    assert_int_equal(slot.head->n_rows[0], 20);
    assert_int_equal(slot.head->n_patches[0], 80);
    assert_int_equal(slot.head->n_bytes[0], 200);
    assert_int_equal(cs_slot_check_items(&slot, &b, 0, &err), CS_OK);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_processes_read_everything_one_writes),
        cmocka_unit_test(small_steps_touch_the_memory_of_few_slots),
        cmocka_unit_test(stop_wakes_every_waiter),
        cmocka_unit_test(a_step_larger_than_the_pool_is_refused_not_hung),
        cmocka_unit_test(a_manifest_of_slots_not_taken_is_refused),
        cmocka_unit_test(attach_checks_memory_budget_and_reader),
        cmocka_unit_test(slot_areas_do_not_overlap),
        cmocka_unit_test(items_of_any_shape_fill_a_slot),
        cmocka_unit_test(sources_say_what_fills_a_row),
        cmocka_unit_test(merged_patches_have_a_budget_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
