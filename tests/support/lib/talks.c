/* A stand-in for the CUDA plugin that is none: as libraries of GPUs do, it says something where programs print. */
#include <stdio.h>

static void say(void) __attribute__((constructor));

static void say(void)
{
    printf("a library has a word to say\n");
}
