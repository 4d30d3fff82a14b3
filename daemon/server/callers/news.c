/* A message that goes to many. */
#include "server/callers/news.h"

#include <stdlib.h>

#include "core/wire/wire.h"

enum { MARK_BYTES = 40 /* {"sub":N, at most */ };

struct cs_news {
    int refs;
    json_t *message;
    struct cs_buf line; /* empty until it was asked for */
};

struct cs_news *cs_news_new(const json_t *message)
{
    struct cs_news *news = calloc(1, sizeof *news);
    CS_ASSERT(news != NULL);
    news->refs = 1;
    news->message = json_incref((json_t *)(uintptr_t)message);
    return news;
}

struct cs_news *cs_news_keep(struct cs_news *news)
{
    news->refs++;
    return news;
}

void cs_news_drop(struct cs_news *news)
{
    if (news == NULL || --news->refs > 0)
        return;
    json_decref(news->message);
    cs_buf_free(&news->line);
    free(news);
}

const json_t *cs_news_message(const struct cs_news *news)
{
    return news->message;
}

enum cs_status cs_news_line(struct cs_news *news, int64_t sub, struct cs_buf *out,
                            struct cs_err *err)
{
    if (news->line.len == 0)
        CS_TRY(cs_msg_encode(news->message, &news->line, err));
    if (news->line.len > CS_LINE_MAX - MARK_BYTES)
        return cs_fail(err, CS_LIMIT, "%zu bytes are too long for a line", news->line.len);
    cs_buf_addf(out, "{\"sub\":%lld,", (long long)sub);
    cs_buf_add(out, news->line.data + 1, news->line.len - 1); /* behind its bracket */
    return CS_OK;
}
