/* The classes of image processors that are known. Inside of input/media only. */
#ifndef CS_INPUT_MEDIA_PROCESSOR_CLASSES_H
#define CS_INPUT_MEDIA_PROCESSOR_CLASSES_H

#include "input/media/processor.h"

struct cs_processor_class {
    const char *name;   /* as transformers 5 writes it */
    const char *others; /* older names: "A|B", or NULL */
    enum cs_processor_kind kind;
    bool is_square;       /* size: 28 is 28 x 28, not a shortest edge */
    bool pads_square;     /* several pictures of a sample; or do_pad (PLAIN) */
    const char *defaults; /* JSON: values of keys that are not given */
    const char *reads;    /* keys beside those that all read: "a|b" */
};

/* The class of this name, also with "Fast" or "Pil" behind it; NULL: not known. */
const struct cs_processor_class *cs_processor_class_find(const char *name);
/* All names, for a message: "A, B, C". */
void cs_processor_class_names(char *out, size_t n);
/* whether it reads the key beyond those that every class reads */
bool cs_processor_class_reads(const struct cs_processor_class *row, const char *key);

#endif
