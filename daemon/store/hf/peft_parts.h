/* An open adapter directory from the inside. Internal to peft.c and peft_write.c. */
#ifndef CS_STORE_PEFT_PARTS_H
#define CS_STORE_PEFT_PARTS_H

#include "store/hf/peft.h"

enum { CS_PEFT_NAME = 512 };

struct cs_peft {
    char *dir;
    json_t *config;
    struct cs_st_file *file;
};

#endif
