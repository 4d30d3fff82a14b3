/* Draws: how often, and only what changed. */
#include "console/screen/screen.h"
#include "console/screen/ui_private.h"
#include "core/base/str.h"
#include "core/base/system/clock.h"

/* After the last drawing: what the daemon tells is read by people, who follow four figures a second;
 * what they do themselves is answered at once, a flood of it held back. */
enum { NEWS_MS = 250, ANSWER_MS = 50, PIECE_MS = 10 };

/* no later than it is armed for already */
static void arm(struct ui *ui, int64_t at_ns)
{
    const int64_t now_ns = cs_now_ns();
    at_ns = at_ns > now_ns ? at_ns : now_ns;
    if (ui->draw_at_ns != 0 && ui->draw_at_ns <= at_ns)
        return;
    ui->draw_at_ns = at_ns;
    const struct timeval wait = {(at_ns - now_ns) / 1000000000,
                                 (at_ns - now_ns) % 1000000000 / 1000};
    event_add(ui->draw, &wait);
}

static void change(struct ui *ui, int64_t after_ms)
{
    ui->is_dirty = true;
    arm(ui, ui->drawn_ns + after_ms * 1000000);
}

void cs_ui_changed(struct ui *ui)
{
    change(ui, NEWS_MS);
}

void cs_ui_answer(struct ui *ui)
{
    change(ui, ANSWER_MS);
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
    ui->drawn_ns = cs_now_ns();
    if (is_more) /* the next piece, after whatever keys there are */
        arm(ui, ui->drawn_ns + PIECE_MS * 1000000);
}

void cs_ui_on_draw(evutil_socket_t fd, short what, void *user)
{
    struct ui *ui = user;
    (void)fd;
    (void)what;
    ui->draw_at_ns = 0;
    if (ui->is_dirty || ui->store->version != ui->drawn_version)
        cs_ui_draw(ui);
}

void cs_ui_say(struct ui *ui, enum cs_style style, const char *text)
{
    cs_str_copy(ui->screen.message, sizeof ui->screen.message, text);
    ui->screen.message_style = style;
}
