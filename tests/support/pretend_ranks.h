/* A worker and a feeder that speak the runner's protocol over the real pool, rings and checkpoint
 * files, but compute nothing: for tests of the runner. A test program calls pretend_main first
 * thing in main; when it was started by a runner (by the name in argv[0]) it plays that part and
 * never returns.
 *
 * The environment says what goes wrong:
 *   FAKE_FAULT      "RANK:STEP:WHAT", rank -1 the feeder; kill, exit, error, stop (SIGSTOP), mute
 *                   (exits 0 without a word), save (a save fails), ready (never ready); halt, gone (step 0: stopped
 *                   before it is ready, while others wait, or give up), done (stopped when it is done)
 *   FAKE_STEP_MS    length of a step
 *   FAKE_LOG_LINES  lines that rank 0 prints in every step
 *   FAKE_EVAL       set: an evaluation of two manifests after every fifth step
 *   FAKE_NAN        from this step on loss and gradient are NaN and updates are skipped
 *   FAKE_UNTRAINED  set: no token of any step is trained */
#ifndef CS_TESTS_SUPPORT_PRETEND_RANKS_H
#define CS_TESTS_SUPPORT_PRETEND_RANKS_H

#include <stdbool.h>

void pretend_main(char **argv);
/* argv[0] of a process is that program's name, or begins with it and a colon. */
bool pretend_is(const char *title, const char *program);

#endif
