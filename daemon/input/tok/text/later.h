/* Characters that the normalizers of Hugging Face's `tokenizers` do not know: their tables are of Unicode 9
 * to 11. Such a character stays as it is, and nothing combines with it. */
#ifndef CS_INPUT_TOK_TEXT_LATER_H
#define CS_INPUT_TOK_TEXT_LATER_H

#include <stdbool.h>
#include <stdint.h>

bool tok_is_later_mark(uint32_t code);
bool tok_is_later_letter(uint32_t code);

#endif
