/* Texts of a table of the Plan view, row by row. Private to views/plan. */
#ifndef CS_CONSOLE_VIEWS_PLAN_CELLS_H
#define CS_CONSOLE_VIEWS_PLAN_CELLS_H

#include "console/draw/widget.h"

enum { CS_CELL = 96, CS_CELLS_SHOWN = 256, CS_CELLS_COLUMNS = 9 };

struct cs_cells {
    int n_columns, n;
    char text[CS_CELLS_SHOWN][CS_CELLS_COLUMNS][CS_CELL];
    const char *cell[CS_CELLS_SHOWN * CS_CELLS_COLUMNS]; /* (n, n_columns) as grids take them */
};

/* fills cell from text */
void cs_cells_point(struct cs_cells *cells);
/* the columns that a grid was laid out with, and the gaps behind them, up to column n */
int cs_cells_width(const struct cs_grid *grid, int n);

#endif
