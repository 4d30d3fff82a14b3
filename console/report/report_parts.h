/* The parts of the page, private to report*.c. Each says whether it has something to show and writes
 * what stands below its heading. */
#ifndef CS_CONSOLE_REPORT_PARTS_H
#define CS_CONSOLE_REPORT_PARTS_H

#include "console/report/report.h"

typedef void cs_report_part(const struct cs_report *report, struct cs_buf *out);

cs_report_part cs_report_warnings, cs_report_charts, cs_report_evaluation, cs_report_timeline;
cs_report_part cs_report_plan, cs_report_memory, cs_report_environment, cs_report_spec;

#endif
