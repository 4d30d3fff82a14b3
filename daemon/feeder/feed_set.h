/* One data set that the feeder reads: that of training, or that of evaluations. */
#ifndef CS_FEEDER_FEED_SET_H
#define CS_FEEDER_FEED_SET_H

#include "feeder/feeder.h"
#include "feeder/loader.h"
#include "input/data/source.h"

struct cs_feed_set {
    const struct cs_feeder_config *config;
    const struct cs_spec_data *data;
    struct cs_source *source;
    struct cs_quarantine *quarantine;
};

/* name: of the set in the list of bad samples. One of which nothing can be used is refused, and one to train on that
 * has nothing for one of the encoders. What is open after a failure is closed as well. */
enum cs_status cs_feed_set_open(const struct cs_feeder_config *config,
                                const struct cs_spec_data *data, const char *name,
                                struct cs_feed_set *out, struct cs_err *err) CS_NODISCARD;
void cs_feed_set_close(struct cs_feed_set *set);
/* Of a stream, user: the set. A failure ends the job: as it says of bad samples, or more of them than it allows. */
enum cs_status cs_feed_set_bad(void *user, const struct cs_load *load,
                               struct cs_err *err) CS_NODISCARD;
/* The line in the feeder's log that says what the cache on disk was worth. */
void cs_feed_set_report(const struct cs_feed_set *set);

#endif
