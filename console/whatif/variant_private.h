/* Private to console/whatif: what files about variants share. */
#ifndef CS_CONSOLE_WHATIF_VARIANT_PRIVATE_H
#define CS_CONSOLE_WHATIF_VARIANT_PRIVATE_H

#include "console/whatif/variant.h"
#include "core/model/placements.h"

/* how a schedule wants the stages placed */
enum cs_schedule_layout cs_variant_stages(const char *schedule);
/* where encoders are */
enum cs_placement cs_variant_place(const struct cs_variant *variant);
/* they are whole on the ranks of the LLM: their own counts mean nothing */
bool cs_variant_copies(const struct cs_variant *variant);
struct cs_layout cs_variant_spec_layout(const struct cs_spec *spec, const struct cs_graph *graph);

#endif
