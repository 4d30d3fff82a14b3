/* A whole piece is one token, or unknown. */
#include "input/tok/tok.h"

enum cs_status tok_word_level(struct tok_run *run, const struct tok_view *view)
{
    const int32_t id = tok_map_find(&run->tok->bytes, run->tok->entries, view->bytes, view->n);

    if (id == -1 || (run->is_special_off && run->tok->entries[id].is_special))
        return tok_emit_unknown(run, view, 0, view->n);
    return tok_emit(run, view, id, 0, view->n);
}
