/* Which way the query tiles of a mask are cut: one after the other, or at the borders of its long
 * runs (core/mask/cells.h). Kernels work through halves of query tiles against key tiles, so what
 * counts is how many of these pairs meet: counted in closed form for both ways, without a look at
 * pairs of tokens.
 *
 * Borders win where neighbours see very different keys (images that see only themselves, between
 * text that sees everything earlier): a tile across a border meets what either of them sees. They
 * lose where all rows see nearly the same, because a cut leaves ragged tiles behind. */
#ifndef CS_MASK_CUT_H
#define CS_MASK_CUT_H

#include "core/mask/cells.h"

/* Borders are taken where they save at least one pair of CS_MASK_CUT_GAIN: more tiles are more
 * beginnings and ends of items. Measured on a H200, D = 128, pictures that see only themselves,
 * forward and backward together: 5 % fewer pairs (8192 rows) were 3 % slower, 9 % fewer 1 % (16384)
 * and 14 % (32768) faster. */
enum { CS_MASK_CUT_GAIN = 14 };

/* First rows of the query tiles, the better of cs_mask_tile_rows(plan, false) and
 * cs_mask_tile_rows_at_runs: row has room for cs_mask_tile_room(plan) numbers. Returns the number
 * of tiles. Tiles stay plain under rules that do not ask what a token is, where rows are not in
 * document order (core/mask/runs.h) or have keys that are others, and where counting would take long (more than 2^20 steps: many
 * runs that are short). */
int32_t cs_mask_tile_rows_chosen(const struct cs_mask_plan *plan, int32_t *row);
/* First rows of the halves that n tiles have, and the end; half: room for 2 n + 1. Returns how
 * many. */
int32_t cs_mask_tile_halves(const int32_t *row, int32_t n, int32_t *half);

#endif
