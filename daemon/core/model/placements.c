/* The table of placements and what is found in it. */
#include "core/model/placements.h"

#include <string.h>

const struct cs_placement_info cs_placement_table[CS_PLACEMENTS] = {

#define X(id, name, modality, own_ranks, cut, layouts, help)                                       \
    {CS_PLACE_##id, name, modality, own_ranks, CS_CUT_##cut, layouts, help},
    CS_PLACEMENTS_TABLE(X)
#undef X
};

const struct cs_placement_info *cs_placement_of_modality(const char *modality)
{
    for (int i = 0; i < CS_PLACEMENTS; i++)
        if (strcmp(cs_placement_table[i].modality, modality) == 0)
            return &cs_placement_table[i];
    return NULL;
}

const struct cs_placement_info *cs_placement_find(const char *name)
{
    for (int i = 0; i < CS_PLACEMENTS; i++)
        if (strcmp(cs_placement_table[i].name, name) == 0)
            return &cs_placement_table[i];
    return NULL;
}

enum cs_placement cs_placement_of_layout(enum cs_schedule_layout layout)
{
    enum cs_placement only = CS_PLACE_OWN;
    int n = 0;
    for (int i = 0; i < CS_PLACEMENTS; i++)
        if ((cs_placement_table[i].layouts >> layout & 1u) != 0) {
            only = (enum cs_placement)i;
            n++;
        }
    return n == 1 ? only : CS_PLACE_OWN;
}
