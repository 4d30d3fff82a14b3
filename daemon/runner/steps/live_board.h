/* Event files of TensorBoard while a job runs: "tensorboard" of its specification names the directory
 * (core/export/board.h). What cannot be written is told once, and training goes on. */
#ifndef CS_RUNNER_LIVE_BOARD_H
#define CS_RUNNER_LIVE_BOARD_H

#include "runner/state/state.h"

void cs_live_board_add(struct cs_runner *r, const json_t *row); /* of a step or an evaluation */
void cs_live_board_end(struct cs_runner *r);                    /* what still waits is written */

#endif
