/* A tag of a job: one word. */
#ifndef CS_WIRE_TAG_H
#define CS_WIRE_TAG_H

#define CS_TAG_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-=:/@+"

enum { CS_TAG_BYTES = 64 };

#endif
