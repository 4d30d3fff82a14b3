/* Draws: at most one screen in DRAW_MS, and only what changed. */
#include "console/screen/screen.h"
#include "console/screen/ui_private.h"
#include "core/base/clock.h"
#include "core/base/str.h"

enum { DRAW_MS = 100, PIECE_MS = 10 };

void cs_ui_arm_draw(struct ui *ui)
{
    const struct timeval soon = {0, DRAW_MS * 1000};
    if (!ui->is_draw_armed) {
        ui->is_draw_armed = true;
        event_add(ui->draw, &soon);
    }
}

void cs_ui_changed(struct ui *ui)
{
    ui->is_dirty = true;
    cs_ui_arm_draw(ui);
}

void cs_ui_draw(struct ui *ui)
{
    int cols, rows;
    cs_term_size(ui->term, &cols, &rows);
    if (cols != cs_canvas_cols(ui->canvas) || rows != cs_canvas_rows(ui->canvas))
        cs_canvas_resize(ui->canvas, cols, rows);
    ui->store->now_ns = cs_wall_ns();
    ui->store->is_measured_held = ui->screen.at.is_held;
    bool is_more = cs_screen_prepare(&ui->screen, ui->store);
    cs_screen_draw(ui->store, &ui->screen, ui->canvas);
    cs_term_flush(ui->term, ui->canvas);
    ui->is_dirty = is_more;
    ui->drawn_version = ui->store->version;
    if (is_more) { /* the next piece, after whatever keys there are */
        ui->is_draw_armed = true;
        event_add(ui->draw, &(const struct timeval){0, PIECE_MS * 1000});
    }
}

void cs_ui_on_draw(evutil_socket_t fd, short what, void *user)
{
    struct ui *ui = user;
    (void)fd;
    (void)what;
    ui->is_draw_armed = false;
    if (ui->is_dirty || ui->store->version != ui->drawn_version)
        cs_ui_draw(ui);
}

void cs_ui_say(struct ui *ui, enum cs_style style, const char *text)
{
    cs_str_copy(ui->screen.message, sizeof ui->screen.message, text);
    ui->screen.message_style = style;
}
