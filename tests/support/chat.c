/* See chat.h. Written by hand here, so that the tests do not depend on our own trainer. */
#include "support/chat.h"

#include <stdio.h>
#include <string.h>

static void put_char(char *out, unsigned code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        out[1] = '\0';
    } else {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        out[2] = '\0';
    }
}

json_t *chat_tokenizer_json(void)
{
    static const char *const special[] = {"<|im_start|>",
                                          "<|im_end|>",
                                          "<|begin_of_text|>",
                                          "<|start_header_id|>",
                                          "<|end_header_id|>",
                                          "<|eot_id|>",
                                          "<s>",
                                          "</s>",
                                          "<image>"};
    static const char *const merges[][2] = {
        {"h",        "e"  },
        {"l",        "l"  },
        {"he",       "ll" },
        {"hell",     "o"  },
        {"r",        "e"  },
        {"re",       "d"  },
        {"\xc4\xa0", "red"}
    };
    json_t *vocab = json_object(), *list = json_array(), *added = json_array();
    unsigned next = 0x100;
    json_int_t id = 0;
    char text[64];

    for (unsigned b = 0; b < 256; b++) {
        int is_itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        put_char(text, is_itself ? b : next++);
        json_object_set_new(vocab, text, json_integer(id++));
    }
    for (size_t i = 0; i < sizeof(merges) / sizeof(merges[0]); i++) {
        snprintf(text, sizeof(text), "%s%s", merges[i][0], merges[i][1]);
        json_object_set_new(vocab, text, json_integer(id++));
        json_array_append_new(list, json_pack("[s,s]", merges[i][0], merges[i][1]));
    }
    for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
        json_array_append_new(added, json_pack("{s:I,s:s,s:b,s:b,s:b,s:b,s:b}", "id", id++,
                                               "content", special[i], "single_word", 0, "lstrip", 0,
                                               "rstrip", 0, "normalized", 0, "special",
                                               strcmp(special[i], "<image>") != 0));
    return json_pack("{s:o,s:n,s:{s:s,s:b,s:b,s:b},s:{s:s,s:o,s:o}}", "added_tokens", added,
                     "normalizer", "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", 1, "model", "type", "BPE", "vocab", vocab,
                     "merges", list);
}
