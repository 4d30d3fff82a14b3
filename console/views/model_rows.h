/* Rows of the Model view: layers that look the same, and what is said of them. */
#ifndef CS_CONSOLE_VIEWS_MODEL_ROWS_H
#define CS_CONSOLE_VIEWS_MODEL_ROWS_H

#include "console/draw/widget.h"
#include "console/views/row_list.h"

enum { CS_MODEL_COLUMNS = 8, CS_MODEL_CELL = 48, CS_MODEL_ROWS = 512 };

extern const struct cs_column cs_model_columns[CS_MODEL_COLUMNS];
extern const struct cs_rows cs_model_rows;

/* Layers of one module that look the same: same badge, same stage, blocks in a row. */
struct cs_model_group {
    int32_t module, first, n, stage; /* graph->layers; stage -1: not planned */
    char label[CS_MODEL_CELL];
    char cell[CS_MODEL_COLUMNS][CS_MODEL_CELL];
    enum cs_style badge;
    bool is_last; /* of its module */
};

/* Of the store's graph, at most cap; returns how many. */
int cs_model_groups(const struct cs_store *store, struct cs_model_group *groups, int cap);

#endif
