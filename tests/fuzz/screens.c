/* Draws every view of a store. */
#include "fuzz/screens.h"

#include "console/screen/keys/keys.h"
#include "console/screen/screen.h"
#include "core/base/str.h"

void fuzz_draw(struct cs_store *store, struct fuzz_bytes *bytes)
{
    struct cs_canvas *canvas =
        cs_canvas_new(40 + (int)fuzz_take(bytes, 160), 10 + (int)fuzz_take(bytes, 50));
    struct cs_screen screen;
    struct cs_buf text = {0};

    cs_screen_init(&screen, fuzz_take(bytes, 2) ? CS_GLYPHS_UTF8 : CS_GLYPHS_ASCII);
    for (int view = 0; view < CS_VIEW_COUNT; view++) {
        screen.view = (enum cs_view)view;
        screen.plan_part = (enum cs_plan_part)fuzz_take(bytes, 3);
        cs_screen_draw(store, &screen, canvas);
        cs_buf_reset(&text);
        cs_canvas_text(canvas, &text);
        fuzz_must(cs_utf8_valid(cs_buf_str(&text), text.len));
    }
    cs_screen_free(&screen);
    cs_canvas_free(canvas);
    cs_buf_free(&text);
}
