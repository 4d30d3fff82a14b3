/* What exchanges between ranks of a node take: as a profile has measured them, else over the link of the class of
 * devices. */
#ifndef CS_PLAN_COST_LINKS_H
#define CS_PLAN_COST_LINKS_H

#include "core/model/spec.h"
#include "core/plan/cost/basis/profile.h"

/* What so many bytes take over the device's link; none, or a link whose speed is not known, take no time. */
int64_t cs_link_ns(const struct cs_device_class *device, int64_t bytes);
/* What n ranks take for an exchange of so many bytes: as a group of n was measured, or the nearest that was, for each of
 * whose ranks latency and what bytes take grow as on a ring. Else a ring over the link: every rank sends all parts but its own,
 * an all-reduce twice; an all-to-all sends them all at once. A shift that was not measured, as in
 * older profiles, is an all-to-all between two ranks. One rank, or no bytes, takes no time. */
int64_t cs_exchange_ns(const struct cs_device_class *device, enum cs_link_op op, int64_t n,
                       int64_t bytes);
/* What such a group's exchanges were measured to be beside computing; NULL: it was not. */
const struct cs_link_beside *cs_link_beside_of(const struct cs_device_class *device,
                                               enum cs_link_op op, int64_t n);
/* ... of as good as no bytes */
int64_t cs_exchange_latency_ns(const struct cs_device_class *device, enum cs_link_op op, int64_t n);
/* What one step of a ring between two ranks takes, from the largest group whose all-reduce was measured; without one
 * what a message takes. false: nothing of it was measured. */
bool cs_profile_ring(const struct cs_profile *profile, int64_t *latency_ns, int64_t *bytes_per_s);
/* The cluster's devices have the links of the profile; a copy of their class, in the arena. profile may be NULL. */
void cs_profile_cluster(const struct cs_profile *profile, struct cs_arena *arena,
                        struct cs_cluster *cluster);
/* The cluster that a spec is planned for and simulated on ("here" where it says none), with the links of the
 * profile that it brings, if it brings one. */
enum cs_status cs_spec_cluster(const struct cs_spec *spec, const struct cs_here *here,
                               struct cs_arena *arena, struct cs_cluster *out,
                               struct cs_err *err) CS_NODISCARD;

#endif
