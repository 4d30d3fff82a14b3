/* Pictures that all become one item of one size. */
#include "input/media/layout_make.h"

void cs_layout_fixed(struct cs_layout_maker *m)
{
    const struct cs_processor *p = m->processor;
    const struct cs_media_encoder *e = m->encoder;

    if (p->height != e->side || p->width != e->side || p->channels != e->channels) {
        m->status =
            cs_fail(m->err, CS_INVALID,
                    "the processor makes pictures of %d x %d x %d, the %s encoder takes "
                    "%d x %d x %d: preprocessor_config.json and config.json do not belong together",
                    p->height, p->width, p->channels, e->family, e->side, e->side, e->channels);
        return;
    }
    if (!p->do_resize && (m->medium->width != p->width || m->medium->height != p->height)) {
        m->status = cs_fail(m->err, CS_INVALID,
                            "picture of %d x %d pixels, but do_resize is false and size is %d x %d",
                            m->medium->width, m->medium->height, p->width, p->height);
        return;
    }
    const int32_t picture = cs_layout_resize(m, 0, p->height, p->width);
    cs_layout_rows(m, cs_layout_item(m, picture)->shape.rows);
}
