/* Between gpus.c and gpu_card.c: figures of cards. All draw at row y of the area. */
#ifndef CS_CONSOLE_VIEWS_GPU_CARD_H
#define CS_CONSOLE_VIEWS_GPU_CARD_H

#include "console/views/state/view.h"

enum { CS_GPU_CELL = 96 };

/* value in units, rounded, "-" unknown (negative); out takes CS_GPU_CELL bytes */
void cs_gpu_number(char *out, int64_t value, int64_t unit, const char *suffix);
void cs_gpu_history(const struct cs_store_gpu *gpu, struct cs_area area, int y,
                    enum cs_glyph_set glyphs);
void cs_gpu_figures(const struct cs_store_gpu *gpu, struct cs_area area, int y);
void cs_gpu_processes(const struct cs_store_gpu *gpu, struct cs_area area, int y,
                      enum cs_glyph_set glyphs);
/* cards that cannot be read or are held down, a line each, at most `room`; returns the row behind */
int cs_gpu_troubles(const struct cs_store *store, struct cs_area area, int y, int room,
                    enum cs_glyph_set glyphs);

#endif
