/* The two tables that programs are made from: every operation has a complete row, every schedule's
 * row is generated, proved and simulated, and keeps what the row says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/plan_schedule.h"
#include "core/sched/proof/kept.h"
#include "core/sched/proof/verify.h"
#include "core/sched/sim/lab.h"
#include "core/sched/span_keys.h"

enum { SLOTS = 12, ENCODER = 2, LLM = 3 };

static void operations_have_complete_rows(void **state)
{
    (void)state;
    for (int op = 0; op < CS_OP_COUNT; op++) {
        const struct cs_op_info *row = &cs_op_table[op];
        const bool is_work = row->kind == CS_OP_KIND_WORK;
        const bool meets = row->kind == CS_OP_KIND_MESSAGE || row->kind == CS_OP_KIND_COLLECTIVE;
        if (row->name == NULL || row->words == NULL || row->words[0] == '\0')
            fail_msg("operation %d has no words", op);
        assert_int_equal(strlen(row->letter), 1);
        assert_int_equal(cs_op_of_letter(row->letter[0]), op); /* no other has it */
        if (is_work != (row->parts != 0) || (row->parts & ~7u) != 0 ||
            (row->stream == CS_STREAM_COMM) != meets ||
            (row->group != CS_GROUP_NONE) != (row->kind == CS_OP_KIND_COLLECTIVE))
            fail_msg("%s: kind, parts, stream and group do not go together", row->name);
    }
    assert_int_equal(cs_op_of_letter('?'), CS_OP_COUNT);
    assert_string_equal(cs_op_letter(CS_OP_COUNT), "?");
    assert_false(cs_op_does(CS_OP_COUNT, CS_PART_FORWARD));
}

static void keys_have_words(void **state)
{
    (void)state;

    static const struct {
        struct cs_span_key key;
        const char *text;
    } rows[] = {
        {{.letter = 'B', .slot = 3, .is_compute = 1},         "B of slot 3"             },
        {{.letter = 's', .slot = 1, .peer = 2},               "send of slot 1 to rank 2"},
        {{.letter = 'r', .slot = 0, .peer = 1, .is_grad = 1},
         "receive of a gradient of slot 0 from rank 1"                                  },
        {{.letter = 'O', .slot = -1},                         "optimizer step"          },
        {{.letter = 'N', .slot = -1},                         "gradient norm"           },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        char text[80];
        cs_program_key_text(&rows[i].key, text, sizeof text);
        assert_string_equal(text, rows[i].text);
    }
}

static bool has_op(const struct cs_program *program, enum cs_op op)
{
    for (int32_t r = 0; r < program->n_ranks; r++)
        for (uint32_t i = 0; i < program->rank[r].n_actions; i++)
            if (program->rank[r].actions[i].op == op)
                return true;
    return false;
}

/* every forward of an encoder on the rank comes before the rank's first backward */
static bool encodes_first(const struct cs_program *program, int32_t rank)
{
    const struct cs_rank_program *rp = &program->rank[rank];
    const int32_t head = program->plan->stages[program->plan->head_stage].branch;
    bool is_back = false, is_first = true;
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMPUTE][i]];
        is_back = is_back || cs_op_does((enum cs_op)a->op, CS_PART_BACKWARD);
        if (a->stage >= 0 && program->plan->stages[a->stage].branch != head)
            is_first = is_first && !(is_back && a->op == CS_OP_FWD);
    }
    return is_first;
}

/* Live slots of a chain of ENCODER + LLM stages with a rank each. */
static void check_live(const struct cs_schedule_info *row, const struct cs_lab_result *result)
{
    for (int32_t s = 0; s < ENCODER + LLM; s++) {
        const int64_t most =
            cs_schedule_live_slots(row, ENCODER + LLM - 1 - s, ENCODER + LLM, SLOTS);
        if (result->peak[s] > most || (s == 0 && result->peak[s] != most))
            fail_msg("%s: stage %d keeps %d slots, its row says %lld", row->name, s,
                     result->peak[s], (long long)most);
    }
}

/* ... and of them those whose backward is half done. */
static void check_held(const struct cs_schedule_info *row, const struct cs_program *program,
                       struct cs_arena *arena)
{
    const struct cs_plan *plan = program->plan;
    int64_t *held = CS_NEW_ARRAY(arena, int64_t, plan->n_stages);
    for (int32_t s = 0; s < plan->n_stages; s++) {
        held[s] = 1;
        plan->stages[s].saved_bytes = 0; /* count what is held alone */
    }
    for (int32_t s = 0; s < ENCODER + LLM; s++) {
        const struct cs_kept_of kept_of = cs_program_kept_of(program, held, arena);
        const int64_t most =
            cs_program_kept_bytes(program, &kept_of, plan->stages[s].rank, NULL, arena);
        const int64_t said =
            cs_schedule_held_slots(row, ENCODER + LLM - 1 - s, ENCODER + LLM, SLOTS);
        if (most != said)
            fail_msg("%s: stage %d holds %lld slots, its row says %lld", row->name, s,
                     (long long)most, (long long)said);
    }
}

static void check_schedule(const struct cs_schedule_info *row)
{
    static const double one[] = {1, 1, 1};
    const struct cs_lab_module modules[] = {
        {.name = "v", .feeds = "llm", .n_stages = ENCODER, .fwd = one,       .bwd = one,       .wgrad = one},
        {.name = "llm",           .n_stages = LLM,             .fwd = one,       .bwd = one, .wgrad = one},
    };
    const struct cs_lab_options options = {.schedule = row->name, .slots = SLOTS};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_lab *lab = NULL;
    struct cs_lab_result result;
    struct cs_err err = {.text = ""};
    if (cs_lab_make(modules, 2, &options, arena, &lab, &err) != CS_OK ||
        cs_program_verify(lab->program, &err) != CS_OK ||
        cs_lab_simulate(lab, arena, &result, &err) != CS_OK)
        fail_msg("%s: %s", row->name, err.text);
    assert_true(result.makespan >= 3.0 * SLOTS);
    for (int32_t s = 0; s < lab->n_stages; s++)
        assert_int_equal(result.left[s], 0);
    assert_int_equal(has_op(lab->program, CS_OP_BWD_INPUT), row->splits_backward);
    assert_int_equal(has_op(lab->program, CS_OP_BWD), !row->splits_backward);
    if (row->layout == CS_LAYOUT_STAGES)
        check_live(row, &result);
    if (row->layout == CS_LAYOUT_STAGES)
        check_held(row, lab->program, arena);
    if (row->layout == CS_LAYOUT_COLOCATED)
        assert_int_equal(encodes_first(lab->program, 0), row->encodes_all);
    cs_arena_free(arena);
}

static void schedules_are_made_proved_and_simulated(void **state)
{
    (void)state;
    for (int i = 0; i < CS_SCHEDULES; i++) {
        const struct cs_schedule_info *row = cs_plan_schedule(i), *found = NULL;
        assert_int_equal(row->id, i);
        assert_int_equal(cs_plan_schedule_find(row->name, &found, NULL), CS_OK);
        assert_ptr_equal(found, row); /* no other has the name */
        assert_true(row->help[0] != '\0');
        assert_true(!row->is_usual || row->takes != 0);
        check_schedule(row);
    }
    assert_null(cs_plan_schedule(CS_SCHEDULES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_have_complete_rows),
        cmocka_unit_test(keys_have_words),
        cmocka_unit_test(schedules_are_made_proved_and_simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
