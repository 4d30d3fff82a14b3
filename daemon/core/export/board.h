/* A job's steps as a run of TensorBoard: DIR/train and DIR/eval, each an event file whose tags are
 * the names of metrics (core/wire/metric.h), so that what was trained on and what was held out lie in
 * one chart. */
#ifndef CS_EXPORT_BOARD_H
#define CS_EXPORT_BOARD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

struct cs_board;

/* Files are made with the first row of their kind. first_step 0: in place of what an earlier call
 * left there; above 0 beside it, superseding it from that step on. */
enum cs_status cs_board_open(const char *dir, int64_t first_step, struct cs_board **out,
                             struct cs_err *err) CS_NODISCARD;
/* A row of a step; rows without values are left out. Written in pieces, by cs_board_flush whole. */
enum cs_status cs_board_add(struct cs_board *board, const json_t *step,
                            struct cs_err *err) CS_NODISCARD;
enum cs_status cs_board_flush(struct cs_board *board, struct cs_err *err) CS_NODISCARD;
int64_t cs_board_rows(const struct cs_board *board); /* added so far */
void cs_board_close(struct cs_board *board);         /* without a flush; accepts NULL */

#endif
