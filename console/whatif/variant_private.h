/* Private to console/whatif: what files about variants share. */
#ifndef CS_CONSOLE_WHATIF_VARIANT_PRIVATE_H
#define CS_CONSOLE_WHATIF_VARIANT_PRIVATE_H

#include "console/whatif/variant.h"
#include "core/model/placements.h"

/* how a schedule wants the stages placed */
enum cs_schedule_layout cs_variant_stages(const char *schedule);
/* its encoders are in places of different kinds, those of its layout; the word is that of searches */
bool cs_variant_is_mixed(const struct cs_variant *variant);
/* where an encoder is */
enum cs_placement cs_variant_place(const struct cs_variant *variant, int32_t branch);
/* it is whole on the ranks of the LLM: its own count means nothing */
bool cs_variant_copies(const struct cs_variant *variant, int32_t branch);
/* that each stage of a branch is cut in; 1: its schedule cuts none */
int32_t cs_variant_chunks(const struct cs_variant *variant, int32_t branch);
struct cs_layout cs_variant_spec_layout(const struct cs_spec *spec, const struct cs_graph *graph);

#endif
