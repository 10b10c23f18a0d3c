"""Figures of the real archive that the simulated one is made to resemble, and drawing by them.

Rounded shares counted on 366,175 rows of GDELT 2.0 in May 2025, in thousandths: of the event codes
within a root, and of the actors' roles within a root among actors that are not blank (`-` is an
actor without a role: a country). Rare entries are left out, so the tables are normalised on
reading. Written as text because 700 numbers are read, and compared with others, more easily so.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.random import Generator

from gdelphi.common.errors import ConfigError
from gdelphi.gdelt.cameo import (
    Country,
    country_by_cameo,
    event_codes,
    quad_class,
)
from gdelphi.world.config import ROOT_SHARES, WorldConfig
from gdelphi.world.law import (
    ROOTS,
    Floats,
    Ints,
    Law,
)
from gdelphi.world.places import Place

Shares = Mapping[str, Mapping[str, float]]

NO_ROLE = "-"
PROVINCES, TOWNS = 12, 240
FIRST_TOWN = 1 + PROVINCES
PLACES = FIRST_TOWN + TOWNS  # of a country: itself, provinces, the capital, towns

# Codes that occur in real files without an entry in CAMEO's table: base, Goldstein value.
UNKNOWN: Mapping[str, tuple[str, str]] = {"106": ("106", "-5.0"), "1213": ("121", "")}


def _read(text: str) -> Shares:
    """Root -> entry -> share, adding up to one; a root stands before its entries."""
    read: dict[str, dict[str, float]] = {}
    for word in text.split():
        name, _, number = word.partition(":")
        if not number:
            root = name
            read[root] = {}
        else:
            read[root][name] = float(number)
    return {
        name: {entry: number / sum(numbers.values()) for entry, number in numbers.items()}
        for name, numbers in read.items()
    }


# Event codes, but for the unknown ones.
CODES = _read("""
01  010:573.2 013:120 012:104.8 014:55.4 017:53.9 015:33.5 016:23.4 011:17.1 018:16.1 019:2.8
02  020:813.9 026:45.1 022:22.5 025:20.5 023:17.2 0256:14.3 0214:12.6 0231:9.2 0233:8 027:6.6
    0234:5.3 0253:5.2 0241:4.5 0211:3.8 028:3.7 021:3.2 0213:1.7 024:1.1 0232:0.6 0243:0.6 0242:0.2
    0244:0.2
03  036:565.6 030:245.1 031:33.5 0311:32.1 033:27.2 0353:16.7 0356:15.3 032:14.6 035:13.6 0331:9.8
    037:7.1 0332:5.8 039:5.3 0333:3.2 0312:1.9 0334:1.1 0351:0.9 034:0.6 038:0.4 0344:0.2 0341:0.2
04  042:307 043:286.8 040:243.5 046:138.1 045:11.7 041:7.3 044:5.5
05  051:707.5 050:135 057:125.5 052:11.2 055:9.7 054:4.9 053:4.4 056:1.8
06  060:542.9 061:332.1 062:66.7 063:42.4 064:15.9
07  071:478.6 070:326.8 073:114.7 072:48.5 075:26 074:5.3
08  080:300.7 084:242.5 0841:153.5 0874:89.6 081:53.3 0831:46.5 085:33.7 0871:29.2 0833:13.7
    083:6.6 0842:5.6 0872:4.1 0873:3.6 0862:3.6 087:3.5 082:3 086:3 0861:2.3 0834:0.9 0811:0.4
    0863:0.4 0813:0.2
09  090:981.7 091:14.2 093:2.2 094:1.2 092:0.7
10  100:798.6 1014:55.3 1056:36.4 1053:35.8 101:25.5 1043:22.7 105:7.3 1041:5.8 1044:5.8 1013:1.8
    1031:1.8 107:1.8 102:0.7 1054:0.4 1042:0.2 1051:0.2
11  111:328.7 112:287.4 110:261.6 114:56.7 1124:18 115:15.5 1123:15.2 1121:7 113:5.9 1122:2.1
    116:1.1 1125:0.7
12  120:696.3 128:80.6 125:64.6 129:45.6 124:38.9 1246:22.3 1243:15.4 127:10.6 122:9.8 1241:8.3
    1244:2.3 1233:2.1 121:1.4 1211:0.9 123:0.8
13  130:716 138:171.2 1384:24.9 139:23.1 1312:18.5 133:11.9 1383:11.8 131:10.8 134:8.9 137:1.6
    1382:0.8 1313:0.3 136:0.2
14  141:721.5 140:101.3 145:65.6 143:54.5 142:36.1 144:14.7 1411:6.3
15  154:482.5 150:337.9 152:76.8 153:76.8 151:26
16  160:403.7 163:240.4 164:148.2 161:124.5 162:57 166:22 1621:3.3 1623:0.8
17  173:688.1 172:167.9 174:45 1712:34.1 1721:17.7 170:16.3 175:7.9 1711:7.3 171:6.3 1723:5.6
    1724:3.3 1722:0.6
18  180:464.1 181:152.3 182:106.3 186:101.2 1821:75.8 1822:35.9 183:19.2 1823:17.1 1832:12.3
    1831:11.7 185:2.6 184:1.6
19  190:633 193:230.2 192:75.2 195:26.4 194:25.8 191:8 196:1.3
20  203:566 202:418.9 201:15.1
""")

# Roles of actor 1 and of actor 2.
ROLES_OF_FIRST = _read("""
01  -:490.2 GOV:166.4 JUD:43 COP:39.2 CVL:37.4 EDU:37 BUS:33.7 MED:27.6 LEG:25.1 MIL:24 HLH:10.9
    IGO:10 ELI:8.6 MNC:8.5 LAB:7.9 CRM:6.5 OPP:5.7 SPY:4.3
02  -:483.3 GOV:171.2 BUS:45.3 CVL:39.3 LEG:37.3 JUD:36.4 EDU:33.3 COP:32.5 MED:26 IGO:17.1
    MIL:14.5 HLH:10.3 MNC:7.8 ELI:7.3 LAB:7.2 OPP:7 CRM:4.7
03  -:557.7 GOV:168.1 BUS:49.5 EDU:37.6 CVL:34.1 LEG:24.3 MIL:18.8 JUD:15.5 IGO:15.3 MED:14.3
    MNC:14.3 COP:11.3 LAB:6.4 HLH:5.7 REB:4.3 ELI:4.2 NGO:4
04  -:586.5 GOV:158.1 EDU:37.1 CVL:29.2 BUS:28.2 LEG:23 MED:20.1 COP:19.5 MIL:18.5 JUD:12.6
    IGO:12.2 HLH:10.3 ELI:6.4 MNC:6.1 LAB:4.9 OPP:4.4
05  -:548 GOV:169.7 EDU:39 BUS:35.9 CVL:33.8 LEG:27.4 MIL:19.9 JUD:19.5 COP:18.1 MED:17.3 IGO:15
    MNC:8.2 ELI:7.2 HLH:7.1 LAB:6 OPP:5.1 NGO:5
06  -:561.5 GOV:129.9 BUS:68.2 COP:39.7 MIL:32.1 CVL:27.6 JUD:21.8 EDU:19 MED:15.7 IGO:14.3
    LEG:12.7 MNC:12.1 HLH:8.2 SPY:6.2 CRM:4.2 AGR:4.1 LAB:4.1
07  -:495.6 GOV:156.4 BUS:57 EDU:49.6 CVL:43.4 MED:31.9 LEG:25.8 MIL:25.2 COP:17.8 JUD:16.9
    IGO:16.2 MNC:12.2 HLH:10.8 LAB:9.7 NGO:4.5 CRM:4.4 ELI:4.3
08  -:519.2 GOV:157.9 JUD:43.3 COP:41.9 BUS:30.9 CVL:26.7 MED:25.4 EDU:25.1 MIL:19.7 LEG:17.7
    MNC:16.7 OPP:13.3 REB:9.5 IGO:9.3 CRM:8.6 HLH:7.1 UAF:5.4 ELI:5 LAB:4.8 AGR:4.1
09  -:435.9 COP:138.5 GOV:119.4 EDU:38.2 JUD:37 CVL:35.3 BUS:28.6 MED:28 MIL:26.5 MNC:24.7 LEG:16.8
    HLH:14.4 CRM:12.5 SPY:11 IGO:9 LAB:6.2 ELI:4.5
10  -:470.1 GOV:199.5 JUD:75 CVL:33.2 COP:31.3 LEG:29.5 BUS:26.4 EDU:20.4 MED:16.7 MIL:15.7
    IGO:14.4 OPP:12.3 CRM:9.4 LAB:8.4 REB:7.8 HLH:6 ELI:5.7 NGO:4.4 MNC:4.2
11  -:495.1 GOV:150.6 JUD:57 BUS:34.7 CVL:33.9 COP:31.6 LEG:31.4 EDU:27.8 MED:26.9 MIL:17.7
    CRM:15.1 OPP:11.7 MNC:10.6 IGO:8.9 ELI:7.6 LAB:7.4 HLH:6.1 UAF:5.1
12  -:495.9 GOV:150.4 JUD:80.4 CVL:38.1 BUS:33.8 EDU:32.3 LEG:32.3 MED:25.3 COP:21.7 MIL:15.6
    IGO:10.7 CRM:9.6 MNC:9.2 HLH:7.6 LAB:7.6 OPP:5.9 ELI:5.4 REB:5.1
13  -:523.6 GOV:165.4 MIL:45 COP:33.2 BUS:32.9 JUD:30.2 CVL:28.9 EDU:20.4 MED:20 LEG:19.8 IGO:15.5
    CRM:9.8 OPP:7.5 UAF:7.3 HLH:5.5 LAB:5.5 MNC:5.2 ELI:4.8 SPY:4.6 REB:4.1
14  -:494.4 GOV:102 EDU:75.3 OPP:60.6 CVL:51.8 BUS:27.9 COP:23.9 LEG:22.3 JUD:21.5 LAB:20.7
    MED:16.3 MIL:16.3 MNC:12.4 REB:12.4 HLH:10.8 AGR:8.4 CRM:5.2 ELI:4.8 IGO:4.8
15  -:536.2 MIL:210.3 GOV:86.4 COP:73.6 JUD:17.5 CVL:16.4 BUS:12.9 IGO:10.5 EDU:4.7 MNC:4.7 SPY:4.7
16  -:562.3 GOV:186.4 BUS:41.3 CVL:27.9 JUD:23.1 EDU:22.5 MIL:20.5 IGO:18.8 LEG:17.6 COP:14.5
    LAB:14.5 MED:9.7 ELI:6.3 CRM:4.8 OPP:4.8
17  -:495.6 COP:133.1 GOV:97 JUD:69.1 CVL:31.6 EDU:29.5 CRM:24.6 BUS:16.3 MIL:15.3 MED:15.1
    LEG:13.6 OPP:10.9 SPY:7.7 ELI:6.6 IGO:6.6 LAB:5.3 UAF:4.9 HLH:4.5 MNC:4.4
18  -:510.5 GOV:82.3 COP:71.6 JUD:46.2 CRM:44.1 EDU:34.4 CVL:33.6 UAF:28 MIL:24.6 REB:22.9 LEG:15
    HLH:12.4 MED:12.2 BUS:11.1 OPP:8.6 ELI:8.1 LAB:6.6 SET:4.7
19  -:531.7 GOV:97.5 COP:76.8 MIL:62.9 CVL:36.7 UAF:32.4 JUD:18.8 EDU:18.5 CRM:17.4 MED:16.5 BUS:14
    REB:11.1 LAB:9.7 LEG:8.6 ELI:8.2 HLH:7.5 MNC:5.5 OPP:5.4 IGO:4.2
20  -:626.4 CVL:113.2 GOV:41.5 IGO:41.5 REB:26.4 UAF:22.6 EDU:18.9 NGO:18.9 LEG:15.1 MIL:15.1
    MED:11.3 ELI:7.5 MNC:7.5 OPP:7.5 RAD:7.5 REF:7.5
""")
ROLES_OF_SECOND = _read("""
01  -:481.9 GOV:132.3 MED:62.1 CVL:45.2 BUS:41.3 EDU:38.8 COP:31.6 JUD:31.5 LEG:29.7 MIL:27.3
    IGO:11.2 HLH:10.7 CRM:9.4 LAB:8.1 ELI:5.8 UAF:5.6 SPY:5.5 MNC:4.2 OPP:4.2
02  -:468.5 GOV:162.6 CVL:56.7 BUS:41.9 EDU:40.5 JUD:36.8 LEG:32.9 COP:24.7 MED:21.2 MIL:20.9
    IGO:20.5 HLH:11.6 LAB:10.4 MNC:8.1 OPP:6.3 CRM:5.9 ELI:5.8 AGR:4.5
03  -:605.9 GOV:125.7 BUS:41.5 CVL:40.5 EDU:37.2 MIL:20.9 LEG:19.7 IGO:16.1 JUD:13.3 MED:12.5
    COP:10.3 MNC:10.3 HLH:6.5 LAB:6.1 OPP:5.3 REB:4.6 ELI:4.5 CRM:4.4
04  -:591.6 GOV:154.3 EDU:37.9 CVL:29.5 BUS:27.8 LEG:23 MED:19.7 COP:18.6 MIL:18.6 JUD:11.9
    IGO:11.7 HLH:10.6 ELI:6.3 MNC:5.9 LAB:5 OPP:4.5 CRM:4
05  -:547.5 GOV:145.6 BUS:43.5 EDU:42.7 CVL:42.3 MIL:31.7 LEG:21.2 IGO:20 MED:15.1 COP:13.7
    JUD:11.6 LAB:8.2 MNC:8 HLH:6.9 ELI:6.5 UAF:5.8 CRM:5.4 OPP:4.6 REB:4.3
06  -:626.8 GOV:90.8 BUS:57.2 CVL:38.3 MIL:31.4 COP:26.4 EDU:22.9 MED:16.2 IGO:14.3 MNC:12.4
    JUD:10.1 SPY:8.5 HLH:7 LEG:5.8 CRM:5.3 AGR:5
07  -:465.6 GOV:134.5 EDU:65.1 CVL:61.1 BUS:60.2 MIL:40.7 LEG:22.2 MED:20.2 HLH:18.6 IGO:16.1
    COP:15.8 REF:12.4 JUD:11.2 LAB:9 NGO:7.4 MNC:7.1 CRM:6.4 UAF:5.6
08  -:529.8 GOV:127.4 COP:53.9 CVL:38.9 BUS:33.2 EDU:31.3 MIL:27.4 MED:23.8 JUD:23.4 OPP:19.6
    LEG:14.5 IGO:12 CRM:11.6 MNC:9.2 REB:8.3 UAF:7 HLH:6.4 ELI:5.8 LAB:4.6
09  -:456 GOV:112.5 COP:85.3 EDU:46.5 BUS:39 MED:33.9 CVL:33.6 MIL:30.7 JUD:30.1 CRM:26.6 MNC:20.4
    SPY:15.1 LEG:14.8 HLH:12.6 IGO:10 OPP:7 LAB:6.7 ELI:4.3
10  -:497.1 GOV:185.9 CVL:43.2 JUD:32.8 BUS:32.2 EDU:30.3 LEG:29.7 COP:24.5 MIL:23.1 IGO:20.7
    MED:14 LAB:11.8 OPP:9.4 CRM:7.4 UAF:6.6 REB:5.2 UIS:5.2 HLH:4.7 ELI:4.1
11  -:510.7 GOV:150.4 JUD:37.3 CVL:36.1 COP:34.8 EDU:29.4 MIL:29 BUS:28.6 MED:26.1 LEG:22.1
    CRM:14.9 UAF:13 OPP:10.9 LAB:7.7 MNC:7 HLH:7 IGO:6.7 REB:6.6 ELI:5.9
12  -:505.8 GOV:145.5 JUD:48.7 CVL:45 LEG:44.4 EDU:34.8 BUS:28.6 COP:24.7 IGO:20.3 MED:20.1
    MIL:15.5 CRM:12.2 OPP:11.8 MNC:7.3 LAB:5.2 ELI:4.8 UAF:4.8 REB:4.6
13  -:545.6 GOV:114.8 CVL:60.1 MIL:43.2 BUS:40.6 EDU:23.5 COP:20.7 JUD:19.4 MED:18.4 CRM:17.5
    UAF:14.1 IGO:11.1 LEG:10.5 MNC:9.4 OPP:9.2 REB:8.3 LAB:7.3 ELI:7.1 HLH:4.5 AGR:4.3 SPY:4.3
14  -:528.3 GOV:132.9 EDU:62.1 CVL:41.4 COP:40.8 OPP:33.8 LEG:26.7 BUS:24 LAB:15.3 MIL:15.3
    JUD:14.7 MED:13.6 REB:10.3 MNC:9.3 HLH:8.7 IGO:4.9 AGR:4.4
15  -:584.4 MIL:183.8 COP:66.2 GOV:53 BUS:24.8 CVL:13.2 UAF:13.2 EDU:11.6 IGO:9.9 MED:8.3 LEG:5
    MNC:5 REB:5
16  -:642.6 GOV:138.6 BUS:27.7 CVL:26.6 EDU:23.9 MIL:21.6 LAB:17.9 LEG:12.5 SET:12.2 MED:11.8
    JUD:11.4 IGO:10.3 COP:9.1 ELI:6.8 UAF:4.9 HLH:4.2
17  -:521.6 COP:90.4 GOV:71.6 CVL:49.4 EDU:41.6 JUD:40.7 CRM:40.6 OPP:23.9 MED:20.8 MIL:18.6
    BUS:17.7 LEG:9 UAF:7.9 SPY:7.9 ELI:6.8 LAB:6.3 IGO:5.3 HLH:5.1
18  -:471.8 GOV:113.2 COP:81.9 CVL:62.6 EDU:54.6 MIL:35.9 CRM:26.7 JUD:23.3 MED:21.6 BUS:15.5
    HLH:13.5 OPP:12.1 REB:10.6 UAF:10.6 LEG:9.8 AGR:7.8 LAB:6.3 ELI:6 MNC:5.2
19  -:516.3 GOV:105.7 COP:58.7 CVL:58 MIL:54.8 EDU:28.3 UAF:26.9 MED:22.3 BUS:14.9 JUD:14.7
    CRM:14.6 HLH:12.5 REB:11.7 LAB:9.7 LEG:7.1 OPP:6.9 ELI:6 AGR:5.6 REF:5 MNC:4.8
20  -:575.8 CVL:191.9 GOV:80.8 MIL:35.4 REB:30.3 IGO:20.2 OPP:15.2 UAF:15.2 EDU:10.1 MED:10.1
    ELI:5.1 NGO:5.1 SET:5.1
""")

# Share of the actors with a role that also have a country.
WITH_COUNTRY: Mapping[str, float] = {
    NO_ROLE: 1.0, "GOV": 0.40, "CVL": 0.15, "EDU": 0.16, "COP": 0.19, "BUS": 0.12, "JUD": 0.20,
    "MIL": 0.28, "MED": 0.25, "LEG": 0.17, "IGO": 0.60, "HLH": 0.15, "CRM": 0.07, "MNC": 0.97,
    "LAB": 0.06, "OPP": 0.17, "ELI": 0.53, "UAF": 0.08, "REB": 0.74, "SPY": 0.17, "AGR": 0.14,
    "NGO": 0.30, "REF": 0.27, "UIS": 0.05, "RAD": 0.05, "SET": 0.39,
}  # fmt: skip

# How actors without a country are named.
ROLE_NAMES: Mapping[str, tuple[str, str, str]] = {
    "GOV": ("PRESIDENT", "GOVERNMENT", "PRIME MINISTER"),
    "CVL": ("COMMUNITY", "RESIDENTS", "CITIZEN"),
    "EDU": ("SCHOOL", "STUDENT", "UNIVERSITY"),
    "COP": ("POLICE", "PRISON", "POLICE OFFICER"),
    "BUS": ("COMPANY", "BUSINESS", "INDUSTRY"),
    "JUD": ("JUDGE", "ATTORNEY", "SUPREME COURT"),
    "MIL": ("MILITARY", "ARMY", "AIR FORCE"),
    "MED": ("MEDIA", "WEBSITE", "JOURNALIST"),
    "LEG": ("CONGRESS", "SENATE", "LAWMAKER"),
    "IGO": ("PEACEKEEPING TROOP", "PEACEKEEPER", "INTERNATIONAL ORGANIZATION"),
    "HLH": ("HOSPITAL", "DOCTOR", "NURSE"),
    "CRM": ("CRIMINAL", "GANG", "ASSAILANT"),
    "MNC": ("MULTINATIONAL", "OIL COMPANY", "MULTINATIONAL CORPORATION"),
    "LAB": ("WORKER", "EMPLOYEE", "UNIONS"),
    "OPP": ("ACTIVIST", "PROTESTER", "THE OPPOSITION"),
    "ELI": ("ACTOR", "RETIRED", "FIRST LADY"),
    "UAF": ("TERRORIST", "GUNMEN", "MILITANT"),
    "REB": ("REBEL", "UPRISING", "REBELLION"),
    "SPY": ("INTELLIGENCE", "OPERATIVE", "INTELLIGENCE OFFICER"),
    "AGR": ("FARMER", "FISHER", "RANCHER"),
    "NGO": ("AID GROUP", "CHARITY", "NON GOVERNMENTAL ORGANISATION"),
    "REF": ("REFUGEE", "ASYLUM SEEKER", "DISPLACED PEOPLE"),
    "UIS": ("MEMBER NATION", "THE INTERNATIONAL COMMUNITY", "MEMBER STATE"),
    "RAD": ("EXTREMIST", "FANATIC", "RADICAL"),
    "SET": ("SETTLER", "SETTLEMENT", "COLONIST"),
}
ROLES = (NO_ROLE, *ROLE_NAMES)

# Rows with one known country, and with two: is it that of the place (home) or another?
HOME_ALONE = 0.71
BOTH_HOME, HOME_FIRST = 0.18, 0.41  # the rest: the second actor is the one at home

# Countries that act everywhere, by CAMEO code, with their part in a thousand actors.
WORLD_POWERS: Mapping[str, float] = {
    "USA": 159, "GBR": 32, "ISR": 25, "PAK": 20, "RUS": 19, "CHN": 18, "UKR": 15, "IND": 14,
    "CAN": 13, "NGA": 12, "FRA": 12, "AUS": 11, "TUR": 9, "DEU": 7, "ITA": 7, "IRN": 7, "IRL": 6,
    "SAU": 6, "JPN": 5, "ESP": 5, "SYR": 5, "MEX": 5,
}  # fmt: skip

# Mean tone of the rows of each root, 01 to 20, and the deviation of all.
TONES = (
    -2.0, -1.7, -0.2, -0.6, 0.7, -1.2, -0.6, -2.4, -3.1, -2.8,
    -3.6, -2.8, -3.8, -2.7, -1.8, -2.9, -5.2, -6.0, -4.6, -5.3,
)  # fmt: skip
TONE_DEVIATION = 3.8

# Rows in a quarter of an hour, by the hour (UTC).
HOURS = (
    1100, 1250, 1240, 1040, 1070, 1080, 1130, 1110, 1180, 1270, 1280, 1440,
    1350, 1660, 1530, 1610, 1450, 1540, 1290, 1360, 1230, 1170, 1240, 990,
)  # fmt: skip
TWO_SOURCES = 0.02  # of the rows; nearly all others have one source


def code_shares(config: WorldConfig) -> Shares:
    """The probability of each code given its root, for all rows but announcements."""
    announcing = {occasion.code for occasion in config.occasions}
    unknown = config.dirt.unknown_codes if config.dirt else 0.0
    unknown_share = min(1.0, unknown / (ROOT_SHARES["10"] + ROOT_SHARES["12"]))
    shares = {}
    for root, codes in CODES.items():
        left = {code: share for code, share in codes.items() if code not in announcing}
        if not left:
            raise ConfigError(f"occasions take all codes of root {root}: leave it at least one")
        extra = {code: unknown_share for code in UNKNOWN if unknown and code[:2] == root}
        scale = (1 - sum(extra.values())) / sum(left.values())
        shares[root] = {code: share * scale for code, share in left.items()} | extra
    return shares


def matrix(shares: Shares, options: Sequence[str]) -> Floats:
    """[roots, options]"""
    return np.array([[shares[root].get(option, 0.0) for option in options] for root in ROOTS])


class Odds:
    """A distribution for each of several cases, to draw from for many rows at once."""

    def __init__(self, weights: Floats) -> None:
        """`weights` are [cases, options], in any unit; an option of weight 0 is never drawn."""
        self.options = weights.shape[1]
        limits = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
        self.limits = (limits + np.arange(len(weights))[:, None]).ravel()

    def draw(self, rng: Generator, case: Ints) -> Ints:
        """One option for each case; a little below 1, so that rounding stays within the case."""
        chance = case + rng.random(len(case)) * (1 - 1e-12)
        return np.asarray(np.searchsorted(self.limits, chance, side="right") - case * self.options)

    def draw_many(self, rng: Generator, number: int) -> Ints:
        """From the first case."""
        return self.draw(rng, np.zeros(number, np.int64))


def lands(law: Law) -> list[Country]:
    """Where actors come from: the streams in their order, then the powers that are none."""
    own = [place.country for place in law.map.places]
    powers = [country_by_cameo(code) for code in WORLD_POWERS]
    return own + [land for land in powers if land is not None and land not in own]


def partners(law: Law, actors: list[Country]) -> Floats:
    """[S, actors]: weight of each as the foreign side; half streams, half powers, no rivals."""
    streams = law.config.streams
    near = np.sqrt(law.usual.sum(axis=1)) * (1 + 4 * law.neighbours)
    np.fill_diagonal(near, 0)
    for a, b in law.map.rivals:
        near[a, b] = near[b, a] = 0
    near /= np.maximum(near.sum(axis=1, keepdims=True), 1e-9)
    powers = np.array([WORLD_POWERS[str(land.cameo)] for land in actors[streams:]])
    far = np.tile(powers / powers.sum(), (streams, 1))
    return np.concatenate([near, far], axis=1)


def place_weights(place: Place) -> Floats:
    weights = np.zeros(PLACES)
    weights[0] = 0.25
    weights[1 : 1 + len(place.provinces)] = 0.04 / len(place.provinces)
    weights[FIRST_TOWN:] = 1 / np.arange(3, TOWNS + 3.0)
    weights[FIRST_TOWN:] *= 0.51 / weights[FIRST_TOWN:].sum()
    weights[FIRST_TOWN] += 0.20
    return weights


def event_text(code: str) -> str:
    """EventCode, EventBaseCode, EventRootCode, QuadClass, GoldsteinScale."""
    if code in UNKNOWN:
        base, goldstein = UNKNOWN[code]
        return f"{code}\t{base}\t{code[:2]}\t{quad_class(code[:2])}\t{goldstein}"
    event = event_codes().get(code)
    if event is None or event.base is None:
        raise ConfigError(f"an occasion has the code {code!r}, which no row can have")
    return f"{code}\t{event.base}\t{event.root}\t{event.quad_class}\t{event.goldstein}"


def actor_texts(country: Country | None) -> list[list[str]]:
    """For each role the ten fields of an actor, under three names."""
    code = country.cameo if country else ""
    blocks = []
    for role in ROLES:
        kind = "" if role == NO_ROLE else role
        names: tuple[str, ...] = ROLE_NAMES.get(role, ("",) * 3)
        if country:
            names = (country.name.upper(), country.adjective.upper(), country.name.upper())
        blocks.append([f"{code}{kind}\t{name}\t{code}\t\t\t\t\t{kind}\t\t" for name in names])
    return blocks
