# Made for this scenario: most requests are short, most bytes are in long ones. Bytes, and the share of what is not larger.
200       0
500       0.15
1000      0.35
2000      0.50
5000      0.62
10000     0.70
30000     0.80
100000    0.90
300000    0.95
1000000   0.98
3000000   0.995
10000000  1
