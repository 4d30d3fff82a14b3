/* GPUs: the figures of one card, and what deserves a look on any of them. */
#include "console/views/gpu_card.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "core/base/units.h"

void cs_gpu_number(char *out, int64_t value, int64_t unit, const char *suffix)
{
    if (value < 0)
        snprintf(out, CS_GPU_CELL, "-");
    else
        snprintf(out, CS_GPU_CELL, "%lld%s", (long long)((value + unit / 2) / unit), suffix);
}

void cs_gpu_history(const struct cs_store_gpu *gpu, struct cs_area area, int y,
                    enum cs_glyph_set glyphs)
{
    int room = area.w - 14, n = gpu->n_history < room ? gpu->n_history : room;
    cs_draw(area, 1, y, CS_STYLE_TITLE, "load");
    if (gpu->n_history == 0)
        cs_draw(area, 12, y, CS_STYLE_DIM, "one reading a second, from now on");
    for (int i = 0; i < n; i++) {
        double v = gpu->history[gpu->n_history - n + i];
        int level = isnan(v) ? -1 : (int)(v * (CS_SPARK_LEVELS - 1) + 0.5);
        cs_draw(area, 12 + i, y, CS_STYLE_TEXT, level < 0 ? " " : cs_glyph_spark(glyphs, level));
    }
}

void cs_gpu_figures(const struct cs_store_gpu *gpu, struct cs_area area, int y)
{
    struct cs_fields fields = {0};
    char text[CS_GPU_CELL];
    cs_fields_add(&fields, CS_STYLE_TITLE, 0, "%s", gpu->name);
    cs_fields_add(&fields, CS_STYLE_TEXT, 1, "%.60s", gpu->model);
    if (!isnan(gpu->mem_busy))
        cs_fields_add(&fields, CS_STYLE_TEXT, 4, "memory busy %.0f%%", gpu->mem_busy * 100);
    cs_gpu_number(text, gpu->sm_max_mhz, 1, "");
    if (gpu->sm_mhz >= 0)
        cs_fields_add(&fields, CS_STYLE_TEXT, 2, "clock %lld of %s MHz", (long long)gpu->sm_mhz,
                      text);
    if (gpu->mem_mhz >= 0)
        cs_fields_add(&fields, CS_STYLE_TEXT, 6, "memory clock %lld MHz", (long long)gpu->mem_mhz);
    if (gpu->slowdown_c > 0)
        cs_fields_add(&fields, CS_STYLE_TEXT, 5, "slows down at %lld C",
                      (long long)gpu->slowdown_c);
    if (gpu->pcie_gen >= 0 && gpu->pcie_width >= 0)
        cs_fields_add(&fields, CS_STYLE_TEXT, 3, "pcie gen%lld x%lld", (long long)gpu->pcie_gen,
                      (long long)gpu->pcie_width);
    if (gpu->energy_mj >= 0)
        cs_fields_add(&fields, CS_STYLE_TEXT, 7, "energy %.2f MJ", (double)gpu->energy_mj / 1e9);
    cs_fields_draw(&fields, area, 1, y);
}

void cs_gpu_processes(const struct cs_store_gpu *gpu, struct cs_area area, int y,
                      enum cs_glyph_set glyphs)
{
    if (gpu->n_processes <= 0) {
        cs_draw(area, 1, y, CS_STYLE_TITLE, "processes");
        cs_draw(area, 12, y, CS_STYLE_DIM, gpu->n_processes == 0 ? "none" : "not known");
        return;
    }
    cs_draw(area, 1, y++, CS_STYLE_TITLE, "PID        GPU MEM    COMMAND");
    for (int i = 0; i < gpu->n_processes && y < area.h; i++, y++) {
        const struct cs_store_gpu_process *p = &gpu->process[i];
        char memory[CS_GPU_CELL] = "-", line[2 * CS_GPU_CELL];
        if (p->mem_bytes >= 0)
            cs_bytes_print(memory, sizeof memory, (uint64_t)p->mem_bytes);
        snprintf(line, sizeof line, "%-8lld %9s    %s", (long long)p->pid, memory,
                 p->command[0] ? p->command : "not seen from here");
        cs_draw_cut(area, 1, y, area.w - 2, CS_STYLE_TEXT, glyphs, line);
    }
}

/* What deserves a look, one line each: a card that cannot be read, clocks that are held down. */
int cs_gpu_troubles(const struct cs_store *store, struct cs_area area, int y, int room,
                    enum cs_glyph_set glyphs)
{
    int first = y;
    for (int i = 0; i < store->gpus.n && y < first + room; i++) {
        const struct cs_store_gpu *gpu = &store->gpus.gpu[i];
        char line[256] = "";
        if (gpu->error[0])
            snprintf(line, sizeof line, "%s cannot be read: %s", gpu->name, gpu->error);
        else if (gpu->throttle[0] && strcmp(gpu->throttle, "power cap") != 0)
            snprintf(line, sizeof line, "%s is held down: %s  (%lld C, %lld MHz)", gpu->name,
                     gpu->throttle, (long long)gpu->temp_c, (long long)gpu->sm_mhz);
        if (line[0])
            cs_draw_cut(area, 1, y++, area.w - 2, gpu->error[0] ? CS_STYLE_BAD : CS_STYLE_WARN,
                        glyphs, line);
    }
    if (store->gpus.note[0] && y < first + room)
        cs_draw_cut(area, 1, y++, area.w - 2, CS_STYLE_WARN, glyphs, store->gpus.note);
    return y;
}
