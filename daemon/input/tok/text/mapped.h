/* Text on its way to a model, and where in the source each of its bytes came from. */
#ifndef CS_INPUT_TOK_TEXT_MAPPED_H
#define CS_INPUT_TOK_TEXT_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed. Byte i came from [begin[i], end[i]) of the source; without maps from base + i alone. */
struct tok_view {
    const char *bytes;
    uint32_t n;
    const uint32_t *begin, *end; /* both or none */
    uint32_t base;
};

uint32_t tok_view_begin(const struct tok_view *view, uint32_t i);
uint32_t tok_view_end(const struct tok_view *view, uint32_t i);
/* Where byte `at` stands; at its end: where the last byte ends. */
uint32_t tok_view_place(const struct tok_view *view, uint32_t at);
struct tok_view tok_view_part(const struct tok_view *view, uint32_t begin, uint32_t end);

/* Text being made. Zero-initialise, free with tok_text_free; memory is kept between uses. */
struct tok_text {
    char *bytes;
    uint32_t *begin, *end;
    size_t n, cap;
    bool is_short_of_memory; /* from then on nothing is added */
};

void tok_text_free(struct tok_text *text);
void tok_text_reset(struct tok_text *text);
struct tok_view tok_text_view(const struct tok_text *text);
/* Append bytes [begin, end) of a view as they are. */
void tok_text_copy(struct tok_text *text, const struct tok_view *from, uint32_t begin,
                   uint32_t end);
/* Append other bytes, which stand for [begin, end) of the source. */
void tok_text_put(struct tok_text *text, const char *bytes, size_t n, uint32_t begin, uint32_t end);

#endif
