/* Texts of a table of the Plan view. */
#include "console/views/plan/cells.h"

void cs_cells_point(struct cs_cells *c)
{
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->n_columns; k++)
            c->cell[i * c->n_columns + k] = c->text[i][k];
}

int cs_cells_width(const struct cs_grid *grid, int n)
{
    int x = 0;
    for (int k = 0; k < n; k++)
        x += grid->width[k] > 0 ? grid->width[k] + CS_TABLE_GAP : 0;
    return x;
}
