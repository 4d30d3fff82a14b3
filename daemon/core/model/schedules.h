/* The table of schedules: what each is called, what it asks of a plan, what it keeps, what the
 * search tries it with. The specification takes the names from here, core/plan the placement
 * (plan_schedule.h says what the columns mean), core/sched/orders the generators.
 *
 * A new schedule is a row here and one file of core/sched/orders that makes its orders
 * (cs_generator_<id>). */
#ifndef CS_MODEL_SCHEDULES_H
#define CS_MODEL_SCHEDULES_H

/* X(id, name, layout, live, splits, encodes_all, takes, is_usual, help)
 *
 * id           of its generator, cs_generator_<id>, and of enum cs_schedule_id
 * layout       enum cs_schedule_layout: how the stages are placed
 * live         enum cs_schedule_live: slots that a stage keeps
 * splits       its programs have BWD_INPUT and BWD_WEIGHT instead of BWD
 * encodes_all  encoders see all slots of the step before the first backward
 * takes        enum cs_schedule_takes: placements of encoders that the search tries it with
 * is_usual     searched unless a script says otherwise
 *
 * The first row is the default. */
/* clang-format off */
#define CS_SCHEDULES_FIRST(X)                                                                      \
    X(1f1b,        "1f1b",        STAGES,    DEPTH,      false, false, ANY,    true,               \
      "one forward, one backward, over the graph of stages")

#define CS_SCHEDULES_REST(X)                                                                       \
    X(gpipe,       "gpipe",       STAGES,    ALL,        false, false, APART,  false,              \
      "all forwards, then all backwards")                                                          \
    X(interleaved, "interleaved", CHUNKS,    DEPTH,      false, false, OWN,    true,               \
      "1F1B over chunks: a rank of the LLM has several stages")                                    \
    X(zb_h1,       "zb-h1",       STAGES,    PATH,       true,  false, APART,  true,               \
      "weight gradients fill bubbles, memory of 1F1B")                                             \
    X(zb_h2,       "zb-h2",       STAGES,    TWICE,      true,  false, APART,  false,              \
      "no bubble between first and last work, twice the live slots")                               \
    X(zb_h2_late,  "zb-h2-late",  STAGES,    TWICE_PATH, true,  false, NONE,   false,              \
      "zb-h2 with weight gradients as late as memory allows")                                      \
    X(three_phase, "three-phase", COLOCATED, DEPTH,      false, true,  SHARED, false,              \
      "encoders of all slots, then the LLM, then the encoders' backwards")                         \
    X(anchors,     "anchors",     COLOCATED, DEPTH,      false, false, SHARED, true,               \
      "encoders a few groups of slots ahead of the LLM")

#define CS_SCHEDULES_TABLE(X) CS_SCHEDULES_FIRST(X) CS_SCHEDULES_REST(X)

#define CS_SCHEDULE_NAME(id, name, layout, live, splits, encodes_all, takes, is_usual, help)  name
#define CS_SCHEDULE_WORD(id, name, layout, live, splits, encodes_all, takes, is_usual, help)  "|" name
#define CS_SCHEDULE_COMMA(id, name, layout, live, splits, encodes_all, takes, is_usual, help) ", " name
/* "1f1b"; all names as the words of a key, "1f1b|gpipe|..."; in a sentence, "1f1b, gpipe, ..." */
#define CS_SCHEDULE_DEFAULT CS_SCHEDULES_FIRST(CS_SCHEDULE_NAME)
#define CS_SCHEDULE_WORDS   CS_SCHEDULE_DEFAULT CS_SCHEDULES_REST(CS_SCHEDULE_WORD)
#define CS_SCHEDULE_LIST    CS_SCHEDULE_DEFAULT CS_SCHEDULES_REST(CS_SCHEDULE_COMMA)

/* the names that the search knows, and those that it tries by itself */
#define CS_SEARCHED_NONE(text)
#define CS_SEARCHED_OWN(text)    text
#define CS_SEARCHED_APART(text)  text
#define CS_SEARCHED_SHARED(text) text
#define CS_SEARCHED_ANY(text)    text
#define CS_USUAL_true(text)      text
#define CS_USUAL_false(text)
#define CS_SCHEDULE_SEARCHED_WORD(id, name, layout, live, splits, encodes_all, takes, is_usual, help) CS_SEARCHED_##takes("|" name)
#define CS_SCHEDULE_USUAL_COMMA(id, name, layout, live, splits, encodes_all, takes, is_usual, help)   CS_USUAL_##is_usual(", " name)
#define CS_SCHEDULE_SEARCHED_WORDS CS_SCHEDULE_DEFAULT CS_SCHEDULES_REST(CS_SCHEDULE_SEARCHED_WORD)
#define CS_SCHEDULE_USUAL_LIST     CS_SCHEDULE_DEFAULT CS_SCHEDULES_REST(CS_SCHEDULE_USUAL_COMMA)

/* clang-format on */

#endif
