/* A message that goes to many: kept once, encoded once, when it is sent first. What differs is to which subscription
 * it belongs, and that is put in front. */
#ifndef CS_SERVER_NEWS_H
#define CS_SERVER_NEWS_H

#include <jansson.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/status.h"

struct cs_news;

struct cs_news *
cs_news_new(const json_t *message); /* one reference, the caller's; borrows no more */
struct cs_news *cs_news_keep(struct cs_news *news); /* one more */
void cs_news_drop(struct cs_news *news);            /* accepts NULL */
const json_t *cs_news_message(const struct cs_news *news);
/* Appends it as a line of this subscription. CS_LIMIT: too long for a line. */
enum cs_status cs_news_line(struct cs_news *news, int64_t sub, struct cs_buf *out,
                            struct cs_err *err) CS_NODISCARD;

#endif
